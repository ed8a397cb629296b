"""The kernels that registry files list. Nothing here imports torch, and no kernel is imported."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from composites.element_types import REGISTRY_TYPES
from composites.errors import Problem, RegistryError, did_you_mean
from composites.registry.condition_types import ANY, TENSOR
from composites.registry.conditions import ConditionError, compile_condition, parse_condition
from composites.registry.document import Kernels
from composites.registry.model import (
    DERIVE,
    Decomposition,
    Kernel,
    Location,
    When,
    split_version,
)
from composites.registry.reading import CheckedDocument, read_document
from composites.registry.yaml_text import YamlText

Places = Callable[[Sequence[str | int]], Location]
"""From a path below some key of a file to its place."""


@dataclass(frozen=True, slots=True)
class KernelRows:
    """The kernels under the key of a file, by the name of an entry or a composite."""

    by_name: Mapping[str, Kernels]
    text: YamlText
    file: str
    outdated: tuple[Problem, ...] = ()
    """Old keys of another file that has them."""
    samples: str | None = None
    """The module that this file names for samples."""

    def places(self, name: str) -> Places:
        """Where the kernels of a name are."""
        return places(self.text, self.file, "kernels", name)


def rows_of_file(document: CheckedDocument, source: str) -> KernelRows:
    """The kernels under the key of a file, which may be in another file.

    Raises:
        RegistryError: the other file cannot be read, is wrong, or has another namespace.
    """
    if document.kernels_file is None:
        return KernelRows(document.kernels, document.text, source, samples=document.samples)
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
    return KernelRows(
        other.kernels, other.text, str(path), tuple(other.outdated), samples=other.samples
    )


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
    return read_document(text, source)


def kernels_of_entry(
    document: CheckedDocument, name: str, rows: KernelRows, source: str
) -> tuple[Kernel, ...]:
    """The kernels that a file has for an entry of its own, not yet checked against the entry: those
    under the entry, then the decompositions to choose under the key of the file."""
    entry = document.entries[name]
    plain, version = split_version(name)
    version = entry.version if version is None else version
    named = f"{document.namespace}.{plain}"
    composite = f"{document.namespace}.{entry.composite or plain}"
    place = places(document.text, source, "composites", name, "kernels")
    found = list(_to_choose(entry.kernels, named, version, place))
    for key, kernels in rows.by_name.items():
        if _is_entry(key, document, name):
            samples = None if rows.samples is None else f"{rows.samples}:{plain}"
            found += _to_choose(kernels, named, version, rows.places(key), samples)
    return (*found, *_for_platforms(entry.kernels, composite, version, place))


def kernels_for_others(document: CheckedDocument, rows: KernelRows) -> tuple[Kernel, ...]:
    """The kernels under the key of a file: decompositions to choose for entries of other
    registries, and kernels for platforms."""
    found: list[Kernel] = []
    for key, kernels in rows.by_name.items():
        name, version = split_version(key)
        if not any(_is_entry(key, document, entry) for entry in document.names):
            found += _to_choose(kernels, name, version, rows.places(key))
        found += _for_platforms(kernels, name, version, rows.places(key))
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


def _to_choose(
    kernels: Kernels,
    entry: str,
    version: int | None,
    place: Places,
    samples: str | None = None,
) -> Iterator[Kernel]:
    """Decompositions to choose. `samples` is the function for those that name none, if there is
    such a function."""
    for name, document in kernels.items():
        if not isinstance(document, list):
            tolerance = document.tolerance.items()
            kernel = Kernel(
                name=name,
                composite=entry,
                version=version,
                forward=_function(document.decomposition),
                when=when_of(document.when),
                location=place((name,)),
                goals=tuple(dict.fromkeys(document.goals)),
                not_for=tuple(dict.fromkeys(document.not_for)),
                only_for=tuple(dict.fromkeys(document.only_for)),
                backward=_function(document.backward),
                derives=document.backward == DERIVE,
                gradients=tuple(document.gradients),
                tolerance=tuple((dtype, float(limit)) for dtype, limit in tolerance),
                samples=document.samples,
            )
            if samples is not None and document.samples is None and not kernel.is_automatic:
                kernel = replace(kernel, samples=samples, samples_by_name=True)
            yield kernel


def _function(text: str | None) -> Decomposition | None:
    return None if text is None or text == DERIVE else Decomposition.parse(text)


def _for_platforms(
    kernels: Kernels, composite: str, version: int | None, place: Places
) -> Iterator[Kernel]:
    for platform, documents in kernels.items():
        for number, document in enumerate(documents if isinstance(documents, list) else ()):
            name = document.function or document.target
            assert name is not None
            yield Kernel(
                name=name,
                composite=composite,
                version=version if document.version is None else document.version,
                forward=Decomposition("jax" if document.function else "ffi", name),
                when=when_of(document.when),
                location=place((platform, number)),
                platform=platform,
                library=document.library,
                operands=tuple(document.operands),
                ignores=tuple(document.ignores),
                priority=document.priority,
            )


def when_of(conditions: Mapping[str, Sequence[Any]]) -> When:
    """Conditions of a file, not yet checked."""
    given: dict[str, tuple[Any, ...]] = {name: tuple(found) for name, found in conditions.items()}
    dtypes, ranks, where = (given.pop(key, ()) for key in ("dtypes", "rank", "where"))
    return When(tuple(given.items()), dtypes, ranks, where)


def kernel_mistakes(kernel: Kernel, attributes: Sequence[str] | None = None) -> Iterator[str]:
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
            _check_where(kernel, text)
        except ConditionError as error:
            yield f"kernels: when: where: {error}"


def _check_where(kernel: Kernel, text: str) -> None:
    """Check an expression of `where`. Its names are those of operands; all others may be those of
    attributes, which only a call has.

    Raises:
        ConditionError: it is no expression that conditions may have.
    """
    nodes = ast.walk(parse_condition(text))
    read = {node.id for node in nodes if isinstance(node, ast.Name)}
    names = dict.fromkeys(read - {"len", *REGISTRY_TYPES}, ANY)
    compile_condition(text, names | dict.fromkeys(kernel.operands, TENSOR))


def places(text: YamlText, source: str, *start: str) -> Places:
    """Where what follows `start` is in a file."""
    return lambda path: Location(source, text.line((*start, *path)))
