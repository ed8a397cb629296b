"""What the tests of this folder share: a comparison with stock torch_xla, and fresh processes.

Everything runs on XLA:CPU. A subject is a function that builds tensors on the XLA device. It is run
twice in this process, on stock torch_xla and with composites on, and what comes back must be the
same in every bit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.processes import Finished, run_python

import composites

Subject = Callable[[], Mapping[str, Any]]
"""Builds tensors (or plain values) on the XLA device, each under the name that a failure shows."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception, as a user sees it."""

    type: type[BaseException]
    message: str


@dataclass(slots=True)
class Run:
    """What all subjects of a test gave, run one after the other and executed as one graph."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By subject and name: a tensor, now on the CPU, or a plain value."""
    raised: dict[str, Raised] = field(default_factory=dict)
    """The subjects that gave an exception instead."""
    nodes: dict[str, Counter[str]] = field(default_factory=dict)
    """By subject: how many nodes of the lazy graph are composites, by the composite's name."""
    stablehlo: str = ""
    """The graph."""


def run(subjects: Mapping[str, Subject]) -> Run:
    done = Run()
    for name, subject in subjects.items():
        xm.set_rng_state(0)
        try:
            named = dict(subject())
        except Exception as error:
            done.raised[name] = Raised(type(error), str(error))
            continue
        done.results[name] = named
        done.nodes[name] = lazy_composites(*_tensors(named))
    on_device = [t for named in done.results.values() for t in _tensors(named)]
    if on_device:
        done.stablehlo = xm.get_stablehlo(on_device)
        execute(on_device)
    for named in done.results.values():
        named |= _described(named)
    return done


def execute(tensors: Sequence[torch.Tensor]) -> None:
    """Execute the graph of these tensors and of no others.

    torch_xla.sync() takes in whatever else is alive, which right after backward() is not the same
    every time: the thread of the autograd engine lets go of its last tensors when it gets to it.
    Another graph can be fused in another way, and differ in the last bit, with composites or not.
    """
    torch_xla._XLAC._xla_sync_multi(list(tensors), [], True, True)


def _tensors(named: Mapping[str, Any]) -> list[torch.Tensor]:
    return [value for value in named.values() if isinstance(value, torch.Tensor)]


def _described(named: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors on the CPU, and what can be asked about them on the device."""
    described: dict[str, Any] = {}
    for name, value in named.items():
        if isinstance(value, torch.Tensor):
            described[name] = value.detach().cpu()
            described[f"{name}: strides"] = value.stride()
            described[f"{name}: device"] = value.device
            described[f"{name}: requires_grad"] = value.requires_grad
    return described


def lazy_composites(*tensors: torch.Tensor) -> Counter[str]:
    """Composites in the lazy graph behind `tensors`."""
    text = torch_xla._XLAC._get_xla_tensors_text(list(tensors)) if tensors else ""
    return Counter(f"ptxla.{name}" for name in re.findall(r" ptxla::(\w+)\(", text))


def written_composites(stablehlo: str) -> Counter[str]:
    """Composites in StableHLO text, without those in the decomposition of another."""
    functions = dict(re.findall(r"^  func\.func (?:\w+ )?@([\w.]+)(.*?)^  }$", stablehlo, _BLOCK))
    found: Counter[str] = Counter()
    pending = ["main"]
    while pending:
        body = functions.pop(pending.pop(), "")
        found.update(re.findall(r'stablehlo\.composite "([^"]+)"', body))
        pending.extend(re.findall(r"\bcall @([\w.]+)", body))
    return found


_BLOCK = re.MULTILINE | re.DOTALL


def same_bits(one: Any, other: Any) -> bool:
    """Equality; for tensors of type, shape and bits, where a NaN is any NaN.

    A NaN's sign and payload carry no meaning in XLA: they change when instructions are merged or
    change places.
    """
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return bool(one == other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(_bits(one), _bits(other))


_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.resolve_conj().contiguous().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    bits = flat.view(_INTEGERS[flat.element_size()])
    return bits.masked_fill(flat.isnan(), -1) if flat.is_floating_point() else bits


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both runs of a test's subjects, already found to be the same."""

    stock: Run
    ours: Run


def compare(
    subjects: Mapping[str, Subject],
    *,
    emits: Collection[str],
    may: Collection[str] = (),
    raises: Collection[str] = (),
) -> Comparison:
    """Run the subjects on stock torch_xla and with all composites on, and compare.

    Args:
        subjects: by name.
        emits: the composites that every subject has in its graph, no more and no less.
        may: composites that a subject may have besides.
        raises: the subjects that raise, the same in both runs.
    """
    stock = run(subjects)
    assert sorted(stock.raised) == sorted(raises), {
        name: stock.raised.get(name) for name in set(stock.raised) ^ set(raises)
    }
    assert not written_composites(stock.stablehlo)
    with composites.enabled("all"):
        ours = run(subjects)

    assert ours.raised == stock.raised
    differences = [
        f"{subject}: {name}: {result!r} is now {ours.results[subject].get(name)!r}"
        for subject, named in stock.results.items()
        for name, result in named.items()
        if not same_bits(result, ours.results[subject].get(name))
    ]
    assert not differences, "\n".join(differences)
    wanted = {f"ptxla.{name}" for name in emits}
    allowed = wanted | {f"ptxla.{name}" for name in may}
    others = {
        name: dict(found)
        for name, found in ours.nodes.items()
        if not wanted <= set(found) <= allowed
    }
    assert not others, f"not {sorted(wanted)}: {others}"
    # The graph that ran says the same as the single ones, so nothing was lost on the way down.
    assert written_composites(ours.stablehlo) == sum(ours.nodes.values(), Counter())
    return Comparison(stock, ours)


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


# Fixtures, because test files cannot import from here whatever way pytest imports them.


@pytest.fixture(scope="session", name="same_as_stock")
def _compare() -> Callable[..., Comparison]:
    return compare


@pytest.fixture(scope="session", name="execute")
def _execute() -> Callable[[Sequence[torch.Tensor]], None]:
    return execute


@pytest.fixture(scope="session", name="same_bits")
def _same_bits() -> Callable[[Any, Any], bool]:
    return same_bits


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


@pytest.fixture(scope="session", name="written_composites")
def _written_composites() -> Callable[[str], Counter[str]]:
    return written_composites


@pytest.fixture(scope="session")
def python() -> Callable[..., Finished]:
    """Runs `script` in a fresh Python process on XLA:CPU."""
    return run_python
