"""The entries and kernels of registry files, before they are checked against operators. This module
imports neither torch nor kernels."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from composites.attribute_types import SEGMENT_SIZES
from composites.contracts.model import AttributeSpec
from composites.errors import Problem, RegistryError, did_you_mean
from composites.frozen import frozen
from composites.registry.conditions import ConditionError, compile_condition, names_in
from composites.registry.document import Kernels
from composites.registry.model import (
    DERIVE,
    Composite,
    Decomposition,
    Kernel,
    Location,
    Registry,
    When,
    split_version,
)
from composites.registry.pairs import version_of
from composites.registry.reading import CheckedDocument, read_document
from composites.registry.yaml_text import registry_text


def unchecked_registry(document: CheckedDocument) -> Registry:
    """Return the entries and kernels of a file as they are written.

    Raises:
        RegistryError: the file has problems, or cannot include the entries of another file.
    """
    entries, problems = included_entries(document, unchecked_registry)
    if document.problems or problems:
        raise RegistryError([*document.problems, *problems])
    return Registry(
        document.text.file,
        document.namespace,
        (*entries, *(unchecked_entry(document, name) for name in document.entries)),
        kernels=file_kernels(document),
        outdated=tuple(document.outdated),
    )


def included_entries(
    document: CheckedDocument, load: Callable[[CheckedDocument], Registry]
) -> tuple[list[Composite], list[Problem]]:
    """Return the entries that a file includes from other files in its folder, and problems.

    Args:
        load: makes a registry of the document of another file; raises a RegistryError if it has
            problems.
    """
    entries: list[Composite] = []
    problems: list[Problem] = []
    for file, items in document.extends.items():
        line = document.text.location("extends", file)
        try:
            registry = load(_extended_document(file, line))
        except RegistryError as error:
            problems.extend(error.problems)
            continue
        messages = []
        if registry.namespace != document.namespace:
            messages.append(f" has the namespace {registry.namespace!r}")
        names = [entry.name for entry in registry.composites]
        for item in items:
            if not registry.named(item.removeprefix("-")):
                hint = did_you_mean(item.removeprefix("-"), names)
                messages.append(f" has no entry {item!r}{hint}")
        included = registry.included(items)
        if both_ways := [item for item in items if f"-{item}" in items]:
            messages.append(f": {both_ways[0]!r} is both named and left out")
        elif not included:
            messages.append(": all its entries are left out")
        problems += [line.problem(f"extends: {file}{message}") for message in messages]
        entries += included
    return entries, problems


def _extended_document(file: str, location: Location) -> CheckedDocument:
    """Read a file that another file extends.

    Args:
        location: the line of the other file that names `file`.

    Raises:
        RegistryError: `file` is not another file in the same folder, cannot be read, or extends
            files itself.
    """
    path = Path(location.file).parent / file
    if file in ("", "..") or Path(file).name != file:
        raise RegistryError([location.problem(f"extends: {file!r}: name a file beside this one")])
    if path == Path(location.file):
        raise RegistryError([location.problem(f"extends: {file}: a file cannot extend itself")])
    try:
        text = registry_text(path)
    except RegistryError as error:
        message = f"extends: {file} {error.problems[0].message}"
        raise RegistryError([location.problem(message)]) from error
    document = read_document(text, str(path))
    if document.extends:
        message = "extends: a file that another one extends cannot extend any"
        raise RegistryError([*document.problems, document.text.problem(message, "extends")])
    return document


def unchecked_entry(document: CheckedDocument, name: str) -> Composite:
    """Return an entry before it is checked against its operator. Operands and types of
    attributes that the file does not list are missing."""
    entry, plain = document.entries[name], split_version(name)[0]
    items = entry.saves or ()
    saved = [pair for item in items if isinstance(item, dict) for pair in item.items()]
    names = [name for item in items for name in (item if isinstance(item, dict) else (item,))]
    return Composite(
        namespace=document.namespace,
        name=plain,
        composite=entry.composite or plain,
        op=entry.op,
        functions=tuple(entry.function),
        version=version_of(name, entry),
        operands=tuple(entry.operands or ()),
        attributes=tuple(
            AttributeSpec(
                key,
                attribute.type,
                attribute.optional,
                bool(attribute.normalize),
                attribute.from_,
                frozen(attribute.value),
            )
            for key, attribute in entry.attributes.items()
        ),
        when=When.parse(entry.when),
        decomposition=Decomposition.parse(entry.decomposition),
        backward=entry.backward,
        location=document.text.location("composites", name),
        results=tuple(entry.results),
        adapt=entry.adapt,
        saves=None if entry.saves is None else (*names, *entry.intermediates),
        saved=(*saved, *((name, None) for name in entry.intermediates)),
        gradients=tuple(entry.gradients),
        group=entry.group,
        fuses=entry.fuses,
        rewrites=tuple(entry.rewrites.items()),
        jax=tuple(entry.jax.items()),
        samples=entry.samples or document.default_samples(name),
        samples_by_name=entry.samples is None and document.samples is not None,
        tolerance=tuple((t, float(limit)) for t, limit in entry.tolerance.items()),
        copies=tuple(dict.fromkeys(entry.copies)),
        kernels=_entry_kernels(document, name),
    )


def _entry_kernels(document: CheckedDocument, name: str) -> tuple[Kernel, ...]:
    """Return the kernels for an entry of the file: first the kernels under the entry, then the
    decompositions to choose under the file's key `kernels`."""
    rows = document.rows
    entry, plain = document.entries[name], split_version(name)[0]
    version = version_of(name, entry)
    named = f"{document.namespace}.{plain}"
    composite = f"{document.namespace}.{entry.composite or plain}"
    location = partial(document.text.location, "composites", name, "kernels")
    to_choose = list(_to_choose(entry.kernels, named, version, location))
    for key, kernels in rows.kernels.items():
        if _is_entry(key, document, name):
            row_location = partial(rows.text.location, "kernels", key)
            samples = rows.default_samples(name)
            to_choose += _to_choose(kernels, named, version, row_location, samples)
    return (*to_choose, *_for_platforms(entry.kernels, composite, version, location))


def file_kernels(document: CheckedDocument) -> tuple[Kernel, ...]:
    """Return the kernels under the file's key `kernels`: decompositions to choose for entries of
    other registries, and kernels for platforms."""
    rows = document.rows
    kernels: list[Kernel] = []
    for key, documents in rows.kernels.items():
        name, version = split_version(key)
        location = partial(rows.text.location, "kernels", key)
        if not any(_is_entry(key, document, entry) for entry in document.names):
            kernels += _to_choose(documents, name, version, location)
        kernels += _for_platforms(documents, name, version, location)
    return tuple(kernels)


def _is_entry(key: str, document: CheckedDocument, name: str) -> bool:
    """Return True if a key of `kernels` is the name of an entry, with or without its version."""
    written, version = split_version(key)
    entry = document.entries.get(name)
    return written == f"{document.namespace}.{split_version(name)[0]}" and (
        version is None or entry is None or version == version_of(name, entry)
    )


def _to_choose(
    kernels: Kernels,
    entry: str,
    version: int | None,
    location: Callable[..., Location],
    samples: str | None = None,
) -> Iterator[Kernel]:
    """Yield decompositions to choose. `samples` is the function for decompositions that name no
    samples; it need not exist."""
    for name, document in kernels.items():
        if not isinstance(document, list):
            kernel = Kernel(
                name=name,
                composite=entry,
                version=version,
                forward=_function(document.decomposition),
                when=When.parse(document.when),
                location=location(name),
                goals=tuple(dict.fromkeys(document.goals)),
                not_for=tuple(dict.fromkeys(document.not_for)),
                only_for=tuple(dict.fromkeys(document.only_for)),
                backward=_function(document.backward),
                derives=document.backward == DERIVE,
                gradients=tuple(document.gradients),
                tolerance=tuple((t, float(limit)) for t, limit in document.tolerance.items()),
                samples=document.samples,
            )
            if samples is not None and document.samples is None and not kernel.is_automatic:
                kernel = replace(kernel, samples=samples, samples_by_name=True)
            yield kernel


def _function(text: str | None) -> Decomposition | None:
    return None if text is None or text == DERIVE else Decomposition.parse(text)


def _for_platforms(
    kernels: Kernels, composite: str, version: int | None, location: Callable[..., Location]
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
                when=When.parse(document.when),
                location=location(platform, number),
                platform=platform,
                library=document.library,
                operands=tuple(document.operands),
                ignores=tuple(document.ignores),
                priority=document.priority,
            )


def kernel_problems(
    kernel: Kernel, entry: str | None, attributes: Sequence[str] | None = None
) -> Iterator[Problem]:
    """Yield the problems of a kernel for a platform, as problems of an entry.

    Args:
        attributes: the attributes of the composite; None to allow any.
    """
    for message in _mistakes(kernel, attributes):
        yield kernel.location.problem(f"kernels: {message}", entry)


def _mistakes(kernel: Kernel, attributes: Sequence[str] | None) -> Iterator[str]:
    named = [name for name, _ in kernel.when.values]
    for key, names in (("when", named), ("ignores", kernel.ignores)):
        for name in names:
            if attributes is not None and name not in attributes:
                has = ", ".join(attributes) or "none"
                yield (
                    f"{key}: {kernel.composite} has no attribute {name!r}"
                    f"{did_you_mean(name, attributes)} (it has {has})"
                )
    for text in kernel.when.where:
        try:
            # A name that is not an operand may be an attribute.
            names = sorted(names_in(text).difference(kernel.operands))
            compile_condition(text, [*names, *kernel.operands])
        except ConditionError as error:
            yield f"when: where: {error}"
            continue
        if attributes is not None:
            known = [*kernel.operands, *attributes, SEGMENT_SIZES]
            for name in names:
                if name not in known:
                    yield (
                        f"when: where: {name!r} is neither an attribute of {kernel.composite} nor"
                        f" an operand that `operands` names{did_you_mean(name, known)}"
                    )
