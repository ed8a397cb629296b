"""The listing of `composites list`: the entries of a catalog as data, and as a table."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from composites.registry.catalog import Catalog
from composites.registry.model import Composite
from composites.registry.packages import LeftOut
from composites.registry.reference import conditions
from lowering.cli.output import texts


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry in the form that `composites list --json` prints."""

    name: str
    """The name with its namespace, as XLA_COMPOSITE_OP takes it."""
    composite: str
    """The composite's name in StableHLO."""
    version: int
    op: str | None
    functions: Sequence[str]
    copies: Sequence[str]
    """Packages in which the entry catches copies of its functions."""
    attributes: Sequence[str]
    alternatives: Mapping[str, Sequence[str]]
    """The goals of the alternatives to the decomposition, by name of the alternative."""
    group: str | None
    on: bool
    file: str
    line: int


def listed(catalog: Catalog, on: Collection[Composite]) -> list[Listed]:
    """The entries of a catalog as data, marked if they are `on`."""
    return [
        Listed(
            name=catalog.label(entry),
            composite=entry.composite_name,
            version=entry.version,
            op=entry.op,
            functions=entry.functions,
            copies=entry.copies,
            attributes=[attribute.name for attribute in entry.attributes],
            alternatives={a.name: a.goals for a in entry.alternatives},
            group=entry.group,
            on=entry in on,
            file=entry.location.file,
            line=entry.location.line,
        )
        for entry in catalog
    ]


def listing_table(entries: Iterable[Listed]) -> Table:
    """A table with one row for each entry."""
    table = Table(*texts("composite", "catches", "attributes", "alternatives"))
    table.add_column("on", no_wrap=True, min_width=len("yes"))
    for entry in entries:
        functions = dict.fromkeys(target.partition(":")[2] for target in entry.functions)
        copies = f", and copies in {', '.join(entry.copies)}" if entry.copies else ""
        alternatives = (f"{n} ({', '.join(g)})" if g else n for n, g in entry.alternatives.items())
        table.add_row(
            Text(f"{entry.name.partition('@')[0]} v{entry.version}"),
            Text(entry.op or ", ".join(functions) + copies),
            Text(", ".join(entry.attributes)),
            Text(", ".join(alternatives)),
            "yes" if entry.on else "",
        )
    return table


@dataclass(frozen=True, slots=True)
class PrintedKernel:
    """A kernel in the form that `composites list --kernels --json` prints."""

    composite: str
    """The composite's name in StableHLO."""
    version: int | None
    """The version of the composite; None for all versions."""
    platform: str
    function: str | None
    target: str | None
    library: str | None
    when: str
    ignores: Sequence[str]
    priority: int
    known: bool
    """True if an entry produces the composite."""
    file: str
    line: int


def listed_kernels(catalog: Catalog) -> list[PrintedKernel]:
    """The kernels of a catalog as data, by composite and platform, in the order in which kernels
    are tried."""
    produced = {(name, entry.version) for entry in catalog for name in entry.produced}
    names = {name for name, _ in produced}
    kernels = [kernel for registry in catalog.registries for kernel in registry.platform_kernels]
    kernels.sort(key=lambda kernel: (kernel.composite, kernel.platform, -kernel.priority))
    return [
        PrintedKernel(
            composite=kernel.composite,
            version=kernel.version,
            platform=kernel.platform or "",
            function=None if kernel.is_target else kernel.name,
            target=kernel.name if kernel.is_target else None,
            library=kernel.library,
            when=conditions(kernel.when),
            ignores=kernel.ignores,
            priority=kernel.priority,
            known=(kernel.composite, kernel.version) in produced
            if kernel.version is not None
            else kernel.composite in names,
            file=kernel.location.file,
            line=kernel.location.line,
        )
        for kernel in kernels
    ]


@dataclass(frozen=True, slots=True)
class ListedEntries:
    """The output of `composites list --json`."""

    composites: Sequence[Listed]
    left_out: Sequence[LeftOut]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The output of `composites list --kernels --json`."""

    kernels: Sequence[PrintedKernel]


Output = ListedEntries | Kernels


def kernels_table(kernels: Iterable[PrintedKernel]) -> Table:
    """A table with one row for each kernel."""
    table = Table(*texts("composite", "platform", "kernel", "when", "priority", "file"))
    for kernel in kernels:
        version = "" if kernel.version is None else f"@{kernel.version}"
        unknown = "" if kernel.known else " (no entry produces it)"
        table.add_row(
            Text(f"{kernel.composite}{version}{unknown}"),
            Text(kernel.platform),
            Text(kernel.function or kernel.target or ""),
            Text(kernel.when),
            Text(str(kernel.priority)),
            Text(f"{kernel.file}:{kernel.line}"),
        )
    return table
