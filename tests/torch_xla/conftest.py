"""Fixtures of this folder: a comparison with stock torch_xla.

A subject is a function that builds tensors on the XLA device. It is called twice in this process,
on stock torch_xla and with composites on, and what comes back must be the same in every bit. Where
the graphs of both are the same once composites are inlined, they are not run. Where they differ,
they run on XLA:CPU; in tests marked `exhaustive`, with COMPOSITES_XLA=full, and with
COMPOSITES_EXECUTE=1, all run.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.environment import is_full_level
from composites_testing.graphs import Graph, Numbering
from composites_testing.subjects import Subject, Subjects
from composites_testing.tensors import execute

import composites
from lowering import activation
from lowering.verification.bits import same_bits

LARGEST_GRAPH = 240
"""Subjects."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception, as a user sees it."""

    type: type[BaseException]
    message: str


@dataclass(eq=False)
class Run:
    """Results of all subjects of a test, called one after the other into one graph."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Tensors or plain values by subject and name, and facts about the tensors."""
    raised: dict[str, Raised] = field(default_factory=dict)
    """The subjects that gave an exception instead."""
    nodes: dict[str, Counter[str]] = field(default_factory=dict)
    """The numbers of composites in the lazy graph, by subject and by the composite's name."""

    @cached_property
    def stablehlo(self) -> str:
        """The graph of all subjects."""
        return str(xm.get_stablehlo(self.tensors(self.results)))

    def tensors(self, subjects: Iterable[str]) -> list[torch.Tensor]:
        return [tensor for subject in subjects for tensor in _tensors(self.results[subject])]

    def graph(self, numbering: Numbering) -> Graph:
        tensors = self.tensors(self.results)
        return numbering.graph_of(tensors) if tensors else Graph((), Counter())

    def execute(self, subjects: Iterable[str]) -> None:
        """Run the graph of these subjects, and bring their tensors to the CPU."""
        subjects = list(subjects)
        if tensors := self.tensors(subjects):
            execute(tensors)
        for subject in subjects:
            named = self.results[subject]
            named |= {
                name: value.detach().cpu()
                for name, value in named.items()
                if isinstance(value, torch.Tensor)
            }


def call(subjects: Mapping[str, Subject]) -> Run:
    """Call the subjects. Nothing runs, unless they read values."""
    done = Run()
    for name, subject in subjects.items():
        xm.set_rng_state(0)
        try:
            named = dict(subject())
        except Exception as error:
            done.raised[name] = Raised(type(error), str(error))
            continue
        done.nodes[name] = lazy_composites(*_tensors(named))
        done.results[name] = named | _described(named)
    return done


def _tensors(named: Mapping[str, Any]) -> list[torch.Tensor]:
    return [value for value in named.values() if isinstance(value, torch.Tensor)]


def _described(named: Mapping[str, Any]) -> dict[str, Any]:
    """Questions about tensors on the device."""
    return {
        f"{name}: {what}": getattr(value, what)
        for name, value in named.items()
        if isinstance(value, torch.Tensor)
        for what in ("dtype", "device", "requires_grad")
    } | {
        f"{name}: strides": value.stride()
        for name, value in named.items()
        if isinstance(value, torch.Tensor)
    }


def lazy_composites(*tensors: torch.Tensor) -> Counter[str]:
    """Composites in the lazy graph behind `tensors`."""
    text = torch_xla._XLAC._get_xla_tensors_text(list(tensors)) if tensors else ""
    return Counter(f"ptxla.{name}" for name in re.findall(r" ptxla::(\w+)\(", text))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs of a test's subjects, which have the same results."""

    stock: Run
    ours: Run
    differences: Mapping[str, str]
    """The first operation in which the graphs differ, by subject, where they do."""


def compare(*tables: Subjects, executes: bool = False) -> Comparison:
    """Call subjects on stock torch_xla and with all composites on, and compare.

    Args:
        tables: the subjects, which become one graph.
        executes: whether all graphs run, and not only those that differ.
    """
    expected = {f"{table.label}{name}": table for table in tables for name in table.calls}
    subjects = {
        f"{table.label}{name}": call for table in tables for name, call in table.calls.items()
    }
    assert len(subjects) == sum(len(table.calls) for table in tables), "two of one name"
    raises = sorted(f"{table.label}{name}" for table in tables for name in table.raises)
    numbering = Numbering()
    stock = call(subjects)
    assert sorted(stock.raised) == raises, {
        name: stock.raised.get(name) for name in set(stock.raised) ^ set(raises)
    }
    stock_graph = stock.graph(numbering)
    assert not stock_graph.composites
    with composites.enabled("all"):
        ours = call(subjects)
        graph = ours.graph(numbering)

    assert ours.raised == stock.raised
    # The graph that runs says the same as the single ones, so nothing was lost on the way down.
    assert graph.composites == sum(ours.nodes.values(), Counter())
    differences = _differences(stock, stock_graph, ours, graph, numbering)
    executed = [*stock.results] if executes else [*differences]
    if executed:
        _ = ours.stablehlo  # which is gone after the run
    for part in batched(executed):
        stock.execute(part)
        ours.execute(part)
    changed = [
        f"{subject}: {name}: {result!r} is now {ours.results[subject].get(name)!r}"
        + f"\n{differences.get(subject, '')}"
        for subject, named in stock.results.items()
        for name, result in named.items()
        if (subject in executed or not isinstance(result, torch.Tensor))
        and not same_bits(result, ours.results[subject].get(name))
    ]
    assert not changed, "\n".join(changed)
    unexpected = {
        name: (dict(counts), f"and not {sorted(expected[name].emits)}")
        for name, counts in ours.nodes.items()
        if expected[name].unexpected(counts)
    }
    assert not unexpected, unexpected
    return Comparison(stock, ours, differences)


def batched(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """The subjects that run as one graph: XLA:CPU fails on graphs of too many."""
    for start in range(0, len(names), LARGEST_GRAPH):
        yield names[start : start + LARGEST_GRAPH]


def _differences(
    stock: Run, stock_graph: Graph, ours: Run, graph: Graph, numbering: Numbering
) -> dict[str, str]:
    """The first difference of the graphs of a subject's results, by subject."""
    differences: dict[str, str] = {}
    expected, actual = iter(stock_graph.results), iter(graph.results)
    for subject, named in stock.results.items():
        count = len(_tensors(named))
        if count != len(_tensors(ours.results[subject])):
            differences[subject] = "it returns other tensors"
        pairs = list(zip(islice(expected, count), islice(actual, count), strict=False))
        for before, after in pairs:
            if before != after:
                differences.setdefault(subject, numbering.difference(before, after))
    return differences


@pytest.fixture(autouse=True, scope="session")
def _device_before_autograd() -> None:
    """PyTorch starts autograd's threads at the first backward, for the devices that it knows."""
    assert torch.ones(1, device="xla").device.type == "xla"


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    """Tests start on stock torch_xla, whatever ran before, and leave it so."""
    composites.disable()
    yield
    left_on = composites.active()
    composites.disable()
    assert not left_on


@pytest.fixture
def use_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    """Puts a registry file in use, given as text without the line of its schema."""

    def use(text: str) -> None:
        path = tmp_path / "acme.yaml"
        path.write_text(f"schema: 1\n{text}")
        monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(path))
        activation.catalog.cache_clear()

    yield use
    composites.disable()
    activation.catalog.cache_clear()


# Fixtures, because test files cannot import from here whatever way pytest imports them.


@pytest.fixture(name="all_same_as_stock")
def _compare_all(request: pytest.FixtureRequest) -> Callable[..., Comparison]:
    exhaustive = request.node.get_closest_marker("exhaustive") is not None
    if exhaustive or is_full_level() or "COMPOSITES_EXECUTE" in os.environ:
        return partial(compare, executes=True)
    return compare


@pytest.fixture(name="same_as_stock")
def _compare(all_same_as_stock: Callable[..., Comparison]) -> Callable[..., Comparison]:
    """Compares one table; the arguments are those of `Subjects`."""

    def compare_one(calls: Mapping[str, Subject], **expected: Any) -> Comparison:
        return all_same_as_stock(Subjects(calls, **expected))

    return compare_one


@pytest.fixture
def compiled_graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """StableHLO of the graphs that torch.compile hands to torch_xla."""
    graphs: list[str] = []
    warm_up = torch_xla._XLAC._xla_warm_up_cache

    def recording_warm_up(tensors: list[Any], devices: list[str]) -> None:
        graphs.append(xm.get_stablehlo([t for t in tensors if isinstance(t, torch.Tensor)]))
        warm_up(tensors, devices)

    monkeypatch.setattr(torch_xla._XLAC, "_xla_warm_up_cache", recording_warm_up)
    torch._dynamo.reset()
    yield graphs
    torch._dynamo.reset()
