"""Every entry of the registry in JAX, and which of them a run has."""

from collections.abc import Sequence
from typing import Any

import pytest

from composites.registry.catalog import load_catalog
from lowering.jax_entries.availability import find_examples
from lowering.jax_entries.definition import Definition
from lowering.jax_entries.entries import Entries
from lowering.sample_calls import ExampleCall, NoCalls

CATALOG = load_catalog(files=())
ENTRIES = Entries(CATALOG)
RANDOM = ("dropout", "drop_path")
"""The entries that draw random numbers."""


def example_of(definition: Definition) -> ExampleCall:
    examples = find_examples(definition)
    assert not isinstance(examples, NoCalls), examples.reason
    return examples[0]


def entry_name(definition: Definition) -> str:
    return definition.entry.name


def some_fast(definitions: Sequence[Definition], first: str, *others: str) -> list[Any]:
    """Parameters of a test: the first entry in every run, some others in the slow one, and all in
    the exhaustive one."""
    assert {first, *others} <= {d.entry.name for d in definitions}
    marks = {first: (), **dict.fromkeys(others, (pytest.mark.slow,))}
    return [
        pytest.param(d, marks=marks.get(d.entry.name, (pytest.mark.exhaustive,)))
        for d in definitions
    ]
