"""`composites show`: all about one entry, with the StableHLO of an example call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from composites.attribute_types import SEGMENT_SIZES
from composites.settings import ALLOWLIST
from lowering.cli.errors import clear_errors, warn
from lowering.cli.output import print_json, print_table

if TYPE_CHECKING:
    from composites.contracts.model import Operand
    from lowering.cli.description import DescribedAttribute, Description


def show(
    name: Annotated[
        str, typer.Argument(help="A name, as in XLA_COMPOSITE_OP.", show_default=False)
    ],
    registry: Annotated[
        list[Path] | None,
        typer.Option("--registry", help="Registry files, in place of XLA_COMPOSITE_REGISTRY."),
    ] = None,
    hook: Annotated[bool, typer.Option("--hook", help="Also print the generated hook.")] = False,
    copies: Annotated[
        bool,
        typer.Option("--copies", help="Also list the copies that it catches, in all modules."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the hook.")] = False,
) -> None:
    """Show what an entry catches, its operands and attributes, and the StableHLO of an example
    call.

    Nothing is run on a device. A name that stands for several entries, such as a group, lists them.

    Example: composites show gelu
    """
    with clear_errors(), ALLOWLIST.unset():
        from composites.registry.catalog import load_catalog
        from lowering.cli.description import chosen, described
        from lowering.cli.listing import listed, listing_table

        files = None if registry is None else [str(path) for path in registry]
        catalog = load_catalog(files, in_place=files is not None)
        for text in catalog.warnings():
            warn(text)
        entries = chosen(name, catalog)
        if as_json:
            found = [asdict(described(entry, catalog, copies=copies)) for entry in entries]
            print_json({"composites": found})
        elif len(entries) == 1:
            _print(described(entries[0], catalog, copies=copies), with_hook=hook)
        else:
            labels = {catalog.label(entry) for entry in entries}
            print_table(listing_table(e for e in listed(catalog, ()) if e["name"] in labels))
            typer.echo(f"{name} stands for these entries; name one of them to see all of it")


def _print(entry: Description, *, with_hook: bool) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for heading, line in _rows(entry):
        table.add_row(heading, Text(line))
    print_table(table)
    if with_hook and entry.hook:
        typer.echo(f"\n{entry.hook}")
    if entry.stablehlo is None:
        typer.echo(f"\nno StableHLO of an example call: {entry.no_stablehlo}")
    else:
        typer.echo(f"\nStableHLO of an example call:\n\n{entry.stablehlo}")
    if entry.stablehlo_of_backward is not None:
        typer.echo(f"StableHLO of its gradients:\n\n{entry.stablehlo_of_backward}")


def _rows(entry: Description) -> Iterator[tuple[str, str]]:
    """Headings and lines. A heading that has several lines stands at the first."""
    for heading, lines in _sections(entry):
        for number, line in enumerate(lines):
            yield heading if number == 0 else "", line


def _sections(entry: Description) -> Iterator[tuple[str, list[str]]]:
    source = f" (package {entry.package})" if entry.package else " (built-in)" * entry.builtin
    yield "composite", [f"{entry.composite}, version {entry.version}"]
    yield "entry", [f"{entry.name}, {entry.file}:{entry.line}{source}"]
    yield "also made by", [", ".join(entry.also_made_by)] if entry.also_made_by else []
    yield "turn on", [f"{entry.turn_on} python train.py"]
    yield "group", [entry.group] if entry.group else []
    installed = {text.partition("(")[0] for text in entry.signatures}
    missing = [f"{f} (not found here)" for f in entry.functions if f not in installed]
    rewritten = [f"{call}, rewritten by {by}" for call, by in entry.rewrites.items()]
    yield "catches", [*entry.signatures, *missing, *rewritten]
    in_jax = [f"{call}, adapted by {by}" for call, by in entry.jax.items()]
    yield "catches in JAX programs", in_jax
    yield "copies", list(_copies(entry))
    yield "caught at", [_where(entry)]
    yield "adapted by", [entry.adapt] if entry.adapt else []
    yield "operands", [_operand(o) for o in entry.operands]
    yield "attributes", [_attribute(attribute) for attribute in entry.attributes]
    yield "results", list(entry.results)
    yield "when", [f"{key}: {_written(value)}" for key, value in entry.when.items()]
    yield "decomposition", [_decomposition(entry)]
    yield "alternatives", list(_alternatives(entry))
    yield "backward", [_backward(entry)] if entry.backward else []
    if entry.hook:
        yield "hook", [f"{len(entry.hook.splitlines())} lines of Python; --hook prints them"]


def _copies(entry: Description) -> Iterator[str]:
    if not entry.copies_in:
        return
    where = ", ".join(entry.copies_in)
    if entry.copies is None:
        yield f"all in {where}; --copies lists them"
        return
    yield f"{len(entry.copies)} in {where}"
    yield from entry.copies
    yield from (f"unknown: {line}" for line in entry.copies_unknown)


def _where(entry: Description) -> str:
    if not entry.caught_at:
        return "the Python function, which is replaced" if entry.functions else "no call by itself"
    first, *others = entry.caught_at
    return f"dispatch key {first}" + "".join(f"; in inference mode {key}" for key in others)


def _operand(operand: Operand) -> str:
    listed = " (a list: one operand for each tensor)" * operand.variadic
    return f"{operand.name}{listed}{' (may be absent)' * operand.optional}"


def _attribute(attribute: DescribedAttribute) -> str:
    if attribute.name == SEGMENT_SIZES:
        origin = "the number of tensors of each operand"
    elif attribute.argument is None:
        origin = f"= {attribute.value!r}"
    else:
        origin = f"from the argument {attribute.argument}"
    notes = ", counted from the front" * attribute.normalized
    notes += ", absent if None" * attribute.optional
    return f"{attribute.name}: {attribute.type or 'type of the value'}, {origin}{notes}"


def _written(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _decomposition(entry: Description) -> str:
    if entry.decomposition != "native":
        return entry.decomposition
    return "native: the stock lowering" if entry.op else "native: the function's own body"


def _alternatives(entry: Description) -> Iterator[str]:
    for name, about in entry.alternatives.items():
        goals = ", ".join(about.get("goals", ())) or "only by name"
        without = "; not for " + ", ".join(about["not_for"]) if about.get("not_for") else ""
        without += "; only for " + ", ".join(about["only_for"]) if about.get("only_for") else ""
        yield f"{name} ({goals}{without}): {about.get('decomposition', 'forward as above')}"
        conditions = about.get("when", {})
        yield from (f"  when {key}: {_written(value)}" for key, value in conditions.items())
        if "backward" in about:
            gradients = ", ".join(about.get("gradients", ()))
            of = f", of {gradients}" if gradients else ""
            yield f"  backward: {about['backward']}{of}"
        promised = ", ".join(f"{t} {limit:g}" for t, limit in about.get("tolerance", {}).items())
        yield from [f"  error against f64: {promised}"] if promised else []


def _backward(entry: Description) -> str:
    if not entry.derived:
        return str(entry.backward)
    return f"{entry.backward}, derived; takes gradients, then {', '.join(entry.saves) or 'nothing'}"
