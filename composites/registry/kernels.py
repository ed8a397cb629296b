"""The kernels that registry files list. Nothing here imports torch, and no kernel is imported."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from composites.element_types import REGISTRY_TYPES
from composites.errors import Problem, RegistryError, did_you_mean
from composites.registry.builtin import builtin_registry_path
from composites.registry.condition_types import ANY, Kinds
from composites.registry.conditions import ConditionError, compile_condition, parse_condition
from composites.registry.document import Kernels
from composites.registry.model import (
    DERIVE,
    Addition,
    Alternative,
    Decomposition,
    ListedKernel,
    Location,
    When,
    split_version,
)
from composites.registry.packages import Announced, LeftOut, announced
from composites.registry.reading import CheckedDocument, read_document
from composites.registry.yaml_text import YamlText, read_yaml
from composites.settings import registry_files

_TENSOR: Kinds = frozenset({"tensor"})


@dataclass(frozen=True, slots=True)
class KernelRows:
    """The kernels under the key of a file, by the name of an entry or a composite."""

    by_name: Mapping[str, Kernels]
    text: YamlText
    file: str


def rows_of_file(document: CheckedDocument, source: str) -> KernelRows:
    """The kernels under the key of a file, which may be in another file.

    Raises:
        RegistryError: the other file cannot be read, is wrong, or has another namespace.
    """
    if document.kernels_file is None:
        return KernelRows(document.kernels, document.text, source)
    path = _path_of(document.kernels_file)
    if path is None:
        message = f"kernels: there is no file {document.kernels_file}"
        raise RegistryError([Problem(source, document.text.line(("kernels",)), None, message)])
    other = checked_document(path)
    problems = list(other.problems)
    if not problems and other.namespace != document.namespace:
        message = f"namespace: must be {document.namespace}, that of {source}"
        problems.append(Problem(str(path), other.text.line(("namespace",)), None, message))
    if other.names or other.kernels_file is not None:
        message = f"must hold kernels alone, because {source} names it"
        problems.append(Problem(str(path), 1, None, message))
    if problems:
        raise RegistryError(problems)
    return KernelRows(other.kernels, other.text, str(path))


def _path_of(kernels_file: str) -> Path | None:
    """Where `package:file` is; None if there is no such package. It is not imported."""
    package, _, name = kernels_file.partition(":")
    try:
        spec = find_spec(package)
    except ImportError:  # of a package that it is in
        spec = None
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return Path(folders[0]) / name if folders else None


def checked_document(path: Path) -> CheckedDocument:
    """The structure of a file, with its problems.

    Raises:
        RegistryError: it cannot be read, or is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RegistryError([Problem(str(path), 1, None, f"cannot be read: {error}")]) from error
    return _checked(text, str(path))


@lru_cache(maxsize=16)  # the built-in file takes a quarter of a second
def _checked(text: str, source: str) -> CheckedDocument:
    return read_document(read_yaml(text, source), source)


def kernels_of_entry(document: CheckedDocument, name: str, source: str) -> tuple[ListedKernel, ...]:
    """The kernels for platforms that an entry lists, for the composite that it produces."""
    entry = document.entries[name]
    plain, version = split_version(name)
    composite = f"{document.namespace}.{entry.composite or plain}"
    own = entry.version if version is None else version
    place = places(document.text, source, "composites", name, "kernels")
    return tuple(_listed(entry.kernels, composite, own, place))


def kernels_of_composites(rows: KernelRows) -> tuple[ListedKernel, ...]:
    """The kernels for platforms under the key of a file."""
    return tuple(
        kernel
        for name, kernels in rows.by_name.items()
        for kernel in _listed(
            kernels, *split_version(name), places(rows.text, rows.file, "kernels", name)
        )
    )


def _listed(
    kernels: Kernels,
    composite: str,
    version: int | None,
    place: Callable[[Sequence[str | int]], Location],
) -> Iterator[ListedKernel]:
    for platform, documents in kernels.items():
        for number, kernel in enumerate(documents if isinstance(documents, list) else ()):
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


def alternatives_of_entry(
    document: CheckedDocument, name: str, rows: KernelRows, source: str
) -> tuple[Alternative, ...]:
    """The decompositions to choose that a file has for an entry of its own, not yet checked against
    the entry: those under the entry, then those under the key of the file."""
    entry = document.entries[name]
    found = list(
        _alternatives(entry.kernels, places(document.text, source, "composites", name, "kernels"))
    )
    for key, kernels in rows.by_name.items():
        if _is_entry(key, document, name):
            found += _alternatives(kernels, places(rows.text, rows.file, "kernels", key))
    return tuple(found)


def additions(document: CheckedDocument, rows: KernelRows) -> tuple[Addition, ...]:
    """The decompositions to choose that a file has for entries of other registries."""
    found: list[Addition] = []
    for key, kernels in rows.by_name.items():
        if any(_is_entry(key, document, name) for name in document.names):
            continue
        place = places(rows.text, rows.file, "kernels", key)
        if alternatives := tuple(_alternatives(kernels, place)):
            found.append(Addition(key, alternatives, place(())))
    return tuple(found)


def _is_entry(key: str, document: CheckedDocument, name: str) -> bool:
    """Whether a key of `kernels` is the name of an entry, perhaps with its version."""
    wanted, version = split_version(key)
    plain, own = split_version(name)
    if wanted != f"{document.namespace}.{plain}":
        return False
    if version is None or name not in document.entries:
        return True
    return version == (document.entries[name].version if own is None else own)


def _alternatives(
    kernels: Kernels, place: Callable[[Sequence[str | int]], Location]
) -> Iterator[Alternative]:
    for name, document in kernels.items():
        if not isinstance(document, list):
            tolerance = document.tolerance.items()
            yield Alternative(
                name=name,
                goals=tuple(dict.fromkeys(document.goals)),
                not_for=tuple(dict.fromkeys(document.not_for)),
                only_for=tuple(dict.fromkeys(document.only_for)),
                when=when_of(document.when),
                decomposition=_function(document.decomposition),
                backward=_function(document.backward),
                derives=document.backward == DERIVE,
                gradients=tuple(document.gradients),
                tolerance=tuple((dtype, float(limit)) for dtype, limit in tolerance),
                samples=document.samples,
                location=place((name,)),
            )


def _function(text: str | None) -> Decomposition | None:
    return None if text is None or text == DERIVE else Decomposition.parse(text)


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
    """The kernels for platforms of one file. Of its entries nothing else is checked.

    Raises:
        RegistryError: the file cannot be read, or what it says of kernels is wrong.
    """
    document = checked_document(path)
    if document.problems:
        raise RegistryError(document.problems)
    found = [k for name in document.entries for k in kernels_of_entry(document, name, str(path))]
    found += kernels_of_composites(rows_of_file(document, str(path)))
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
