"""The kernels that registry files list. Nothing here imports torch, and no kernel is imported."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from composites.element_types import REGISTRY_TYPES
from composites.errors import Problem, RegistryError, did_you_mean
from composites.registry.builtin import builtin_registry_path
from composites.registry.condition_types import ANY, Kinds
from composites.registry.conditions import ConditionError, compile_condition, parse_condition
from composites.registry.document import KernelDocument
from composites.registry.model import ListedKernel, Location, When, split_version
from composites.registry.packages import Announced, LeftOut, announced
from composites.registry.reading import CheckedDocument, read_document
from composites.registry.yaml_text import YamlText, read_yaml
from composites.settings import registry_files

_TENSOR: Kinds = frozenset({"tensor"})


def kernels_of_entry(
    document: CheckedDocument, name: str, place: Callable[[Sequence[str | int]], Location]
) -> tuple[ListedKernel, ...]:
    """The kernels that an entry lists, for the composite that it produces."""
    entry = document.entries[name]
    plain, version = split_version(name)
    composite = f"{document.namespace}.{entry.composite or plain}"
    own = entry.version if version is None else version
    return tuple(_listed(entry.kernels, composite, own, place))


def kernels_for_others(
    document: CheckedDocument, place: Callable[[Sequence[str | int]], Location]
) -> tuple[ListedKernel, ...]:
    """The kernels that a file lists for composites of other registries."""

    def of(name: str) -> Callable[[Sequence[str | int]], Location]:
        return lambda path: place((name, *path))

    return tuple(
        kernel
        for name, kernels in document.kernels.items()
        for kernel in _listed(kernels, *split_version(name), of(name))
    )


def _listed(
    kernels: Mapping[str, Sequence[KernelDocument]],
    composite: str,
    version: int | None,
    place: Callable[[Sequence[str | int]], Location],
) -> Iterator[ListedKernel]:
    for platform, documents in kernels.items():
        for number, kernel in enumerate(documents):
            yield ListedKernel(
                composite=composite,
                version=version if kernel.version is None else kernel.version,
                platform=platform,
                function=kernel.function,
                target=kernel.target,
                library=kernel.library,
                operands=tuple(kernel.operands),
                when=when_of(kernel.when),
                ignores=tuple(kernel.ignores),
                priority=kernel.priority,
                location=place((platform, number)),
            )


def when_of(conditions: Mapping[str, Sequence[Any]]) -> When:
    """Conditions of a file, not yet checked."""
    given: dict[str, tuple[Any, ...]] = {name: tuple(found) for name, found in conditions.items()}
    dtypes, ranks, where = (given.pop(key, ()) for key in ("dtypes", "rank", "where"))
    return When(tuple(given.items()), dtypes, ranks, where)


def kernel_mistakes(kernel: ListedKernel, attributes: Sequence[str] | None = None) -> Iterator[str]:
    """What is wrong with a kernel.

    Args:
        attributes: those of the composite, where they are known.
    """
    named = [name for name, _ in kernel.when.values]
    for key, names in (("when", named), ("ignores", kernel.ignores)):
        for name in names:
            if attributes is not None and name not in attributes:
                has = ", ".join(attributes) or "none"
                yield (
                    f"kernels: {key}: {kernel.composite} has no attribute {name!r}"
                    f"{did_you_mean(name, attributes)} (it has {has})"
                )
    for text in kernel.when.where:
        try:
            compile_where(kernel, text)
        except ConditionError as error:
            yield f"kernels: when: where: {error}"


def compile_where(kernel: ListedKernel, text: str, attributes: Sequence[str] | None = None) -> str:
    """An expression of `where` as Python. Its names are those of operands; without `attributes`,
    which only a call has, all other names may be theirs.

    Raises:
        ConditionError: it is no expression that conditions may have.
    """
    names: dict[str, Kinds] = dict.fromkeys(attributes or (), ANY)
    if attributes is None:
        nodes = ast.walk(parse_condition(text))
        found = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= dict.fromkeys(found - {"len", *REGISTRY_TYPES}, ANY)
    return compile_condition(text, names | dict.fromkeys(kernel.operands, _TENSOR))


# ---- all files ----


def all_listed() -> tuple[ListedKernel, ...]:
    """The kernels of all registries: of files that the user has named, of installed packages, and
    of the project. Packages whose file cannot be read are left out.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    found = [kernel for file in registry_files() for kernel in listed_in(Path(file))]
    for package in announced():
        found += [] if isinstance(package, LeftOut) else _of_package(package)
    return (*found, *listed_in(builtin_registry_path()))


def _of_package(package: Announced) -> tuple[ListedKernel, ...]:
    try:
        return listed_in(package.path)
    except Exception:  # whatever the file causes; `composites list` says why
        return ()


def listed_in(path: Path) -> tuple[ListedKernel, ...]:
    """The kernels of one file. Of its entries nothing else is checked.

    Raises:
        RegistryError: the file cannot be read, or what it says of kernels is wrong.
    """
    source = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RegistryError([Problem(source, 1, None, f"cannot be read: {error}")]) from error
    if "kernels:" not in text:  # reading a large file takes a second
        return ()
    yaml_text = read_yaml(text, source)
    document = read_document(yaml_text, source)
    if document.problems:
        raise RegistryError(document.problems)
    found = [
        kernel
        for name in document.entries
        for kernel in kernels_of_entry(
            document, name, places(yaml_text, source, "composites", name, "kernels")
        )
    ]
    found += kernels_for_others(document, places(yaml_text, source, "kernels"))
    problems = [
        Problem(kernel.location.file, kernel.location.line, kernel.composite, mistake)
        for kernel in found
        for mistake in kernel_mistakes(kernel)
    ]
    if problems:
        raise RegistryError(problems)
    return tuple(found)


def places(text: YamlText, source: str, *start: str) -> Callable[[Sequence[str | int]], Location]:
    """Where what follows `start` is in a file."""
    return lambda path: Location(source, text.line((*start, *path)))
