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


def mark_runs(definitions: Sequence[Definition], first: str, *slow: str) -> list[Any]:
    """Mark parameters of a test: the first entry is in every run, those of `slow` in the slow run,
    and all in the exhaustive run."""
    assert {first, *slow} <= {d.entry.name for d in definitions}
    marks = {first: (), **dict.fromkeys(slow, (pytest.mark.slow,))}
    return [
        pytest.param(d, marks=marks.get(d.entry.name, (pytest.mark.exhaustive,)))
        for d in definitions
    ]
