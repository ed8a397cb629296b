"""The subjects of verification: an entry of a registry, or a function under `@composite`."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from composites.allowlist import resolve
from composites.decompositions import Words
from composites.errors import UnusableFunctionError
from composites.functions import load_function
from composites.registry.catalog import Catalog
from composites.registry.model import Composite, Kernel
from composites.registry.samples import samples_of
from lowering.decorator import ENTRY


@dataclass(frozen=True, slots=True)
class Subject:
    """An entry or a function to verify."""

    entry: Composite
    label: str
    entries: tuple[Composite, ...] = ()
    """The entries that are on while samples run: the entry, and its backward or its forward."""
    forward: Composite | None = None
    """The forward of a backward, if the registry has one."""
    function: Callable[..., Any] | None = None
    """The function of an entry under `@composite`."""
    samples: str | None = None
    """`package.module:function`, or the same with a file, which yields its samples."""
    alternative: Kernel | None = None
    """The decomposition that is verified, if it is not the entry's own."""

    @property
    def words(self) -> Words:
        """The choice of the decomposition; see `composites.decompositions`."""
        return () if self.alternative is None else ((self.entry.identity, self.alternative.name),)

    @property
    def is_backward(self) -> bool:
        op = self.entry.op or ""
        return self.forward is not None or "_backward" in op or bool(self.entry.gradients)

    @property
    def original(self) -> Callable[..., Any] | None:
        """The function under `@composite` as it is written."""
        if self.function is None:
            return None
        original = self.function.__wrapped__  # type: ignore[attr-defined]
        if inspect.ismethod(self.function):  # a classmethod: bind the original to the class too
            return original.__get__(self.function.__self__)  # type: ignore[no-any-return]
        return original  # type: ignore[no-any-return]


def all_subjects(
    entries: Sequence[Composite],
    words: Words,
    functions: Sequence[str],
    samples: str | None,
    catalog: Catalog,
) -> tuple[Subject, ...]:
    """Entries with their alternatives, the alternatives that words mean, and functions.

    Raises:
        UnusableFunctionError: a function does not exist, or is not under `@composite`.
    """
    subjects = make_subjects(entries, catalog)
    labels = {subject.label for subject in subjects}
    chosen = (s for s in chosen_alternatives(words, catalog) if s.label not in labels)
    return (*subjects, *chosen, *(subject_of_function(name, samples) for name in functions))


def make_subjects(entries: Sequence[Composite], catalog: Catalog) -> tuple[Subject, ...]:
    """Make subjects of entries of registries, each followed by its alternatives."""
    subjects = [_subject(entry, catalog) for entry in entries]
    return tuple(s for subject in subjects for s in (subject, *_alternatives(subject)))


def chosen_alternatives(words: Words, catalog: Catalog) -> tuple[Subject, ...]:
    """The alternatives that words mean, without the entries' own decompositions. There may be
    several words for one entry."""
    named = {identity for identity, _ in words}
    subjects = make_subjects([entry for entry in catalog if entry.identity in named], catalog)
    return tuple(
        subject
        for subject in subjects
        if any(
            subject.entry.identity == identity and subject.alternative in subject.entry.chosen(word)
            for identity, word in words
        )
    )


def _alternatives(subject: Subject) -> Iterator[Subject]:
    for alternative in subject.entry.alternatives:
        if alternative.is_automatic:
            continue  # the subject of the entry itself has stock's bits
        yield replace(
            subject,
            label=f"{subject.label}={alternative.name}",
            samples=samples_of(alternative) or subject.samples,
            alternative=alternative,
        )


def _subject(entry: Composite, catalog: Catalog) -> Subject:
    forward = catalog.forward_of(entry)
    on = entry if forward is None or entry.op is not None else forward
    entries = tuple(resolve([on.identity], catalog))
    samples = samples_of(entry) or (None if forward is None else samples_of(forward))
    return Subject(entry, catalog.label(entry), entries, forward, samples=samples)


def subject_of_function(name: str, samples: str | None) -> Subject:
    """A function under `@composite`, as `package.module:function` or `FILE.py:FUNCTION`.

    Raises:
        UnusableFunctionError: the function does not exist, or is not under `@composite`.
    """
    function = load_function(name)
    entry = getattr(function, ENTRY, None)
    if not isinstance(entry, Composite):
        raise UnusableFunctionError(
            f"{name} is not under @composites.composite; name such a function, or an entry of a"
            " registry"
        )
    return Subject(entry, entry.qualified, (entry,), function=function, samples=samples)
