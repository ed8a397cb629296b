"""Running samples: on the CPU, and as one graph on the frontend's device.

Results are on the CPU. An exception counts as a result.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

from composites.torch_internals import pytree
from lowering.frontends.protocols import Frontend, RunningGraph
from lowering.sample_calls import Convert, Sample
from lowering.stablehlo import Module
from lowering.verification.bits import same_bits

_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception, as a user sees it."""

    type: str
    message: str

    @classmethod
    def from_error(cls, error: BaseException) -> "Raised":
        return cls(type(error).__name__, str(error))

    def __str__(self) -> str:
        return f"{self.type}: {self.message}".strip()


@dataclass(frozen=True, slots=True)
class Values:
    """The results of one call. Tensors are on the CPU; other results are unchanged."""

    results: tuple[Any, ...] = ()
    gradients: tuple[torch.Tensor | None, ...] = ()
    """The gradients of each tensor that needs one, for a fixed direction."""
    operands: tuple[torch.Tensor, ...] = ()
    """The tensors among the arguments, after the call."""

    @property
    def parts(self) -> tuple[tuple[Any, ...], ...]:
        return self.results, self.gradients, self.operands

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [v for part in self.parts for v in part if isinstance(v, torch.Tensor)]

    def mapped(self, function: Callable[[torch.Tensor], torch.Tensor]) -> "Values":
        return Values(*(
            tuple(function(v) if isinstance(v, torch.Tensor) else v for v in part)
            for part in self.parts
        ))  # fmt: skip

    def agrees(self, other: "Values", same: Callable[[Any, Any], bool]) -> bool:
        """Return whether results, gradients and operands of two calls are the same, one by one."""
        pairs = zip(self.parts, other.parts, strict=True)
        return all(len(a) == len(b) and all(map(same, a, b)) for a, b in pairs)


Outcome = Values | Raised


def equal_values(left: Values, right: Values) -> bool:
    """Return whether results, gradients and operands are the same in every bit."""
    return left.agrees(right, same_bits)


def evaluate(sample: Sample, convert: Convert, function: Callable[..., Any]) -> Values:
    """Call a function with a sample's arguments, and compute the gradients."""
    arguments, keywords = sample.converted(convert)
    tensors = list(_argument_tensors((arguments, keywords)))
    before = [tensor.requires_grad for tensor in tensors]
    returned = pytree.tree_leaves(function(*arguments, **keywords))
    results = [r for r in returned if isinstance(r, torch.Tensor) and r.requires_grad]
    leaves = [tensor for tensor, wants in zip(tensors, before, strict=True) if wants]
    gradients: tuple[torch.Tensor | None, ...] = ()
    if results and leaves:
        directions = [_direction(result, convert) for result in results]
        gradients = torch.autograd.grad(results, leaves, directions, allow_unused=True)
    return Values(tuple(returned), gradients, tuple(tensors)).mapped(torch.Tensor.detach)


def _argument_tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in pytree.tree_leaves(values):
        if isinstance(value, torch.nn.Module):
            yield from value.parameters()
            yield from value.buffers()
        elif isinstance(value, torch.Tensor):
            yield value
            if value.is_leaf and value.grad is not None:
                yield value.grad


def _direction(result: torch.Tensor, convert: Convert) -> torch.Tensor:
    """Random numbers that every dtype has exactly."""
    generator = torch.Generator().manual_seed(1)
    numbers = torch.randn(result.shape, generator=generator).mul(16).round().div(16)
    if result.is_complex():
        return convert(torch.complex(numbers, numbers.flip(0) if numbers.dim() else numbers))
    return convert(numbers).to(result.dtype)


# ---- on the CPU ----


FEW_NUMBERS, MORE_SEEDS = 4, 16
"""Dropout may keep the same few numbers with two seeds, so that more seeds are tried."""


def is_random(sample: Sample, first: Outcome) -> bool:
    """Return whether the results of a sample on the CPU change with the seed."""
    has_few = isinstance(first, Values) and all(
        not isinstance(result, torch.Tensor) or result.numel() <= FEW_NUMBERS
        for result in first.results
    )
    seeds = range(1, 1 + (MORE_SEEDS if has_few else 1))
    return any(_changes_with_seed(sample, first, seed) for seed in seeds)


def _changes_with_seed(sample: Sample, first: Outcome, seed: int) -> bool:
    torch.manual_seed(seed)
    # PyTorch's samples set their own seed before each call.
    with mock.patch.object(torch, "manual_seed"):
        second = on_cpu(sample)
    return not (
        isinstance(first, Values) and isinstance(second, Values) and equal_values(first, second)
    )


def on_cpu(sample: Sample, *, wide: bool = False) -> Outcome:
    """Run a sample on the CPU; if `wide`, with all floats in f64."""

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().clone()
        if wide and copy.is_floating_point():
            copy = copy.to(torch.float64)
        elif wide:
            copy = copy.to(_WIDE.get(copy.dtype, copy.dtype))
        return copy.requires_grad_(tensor.requires_grad)

    torch.manual_seed(0)
    try:
        return evaluate(sample, convert, sample.reference or sample.function)
    except Exception as error:
        return Raised.from_error(error)


# ---- on the device ----


@dataclass(slots=True)
class Run:
    """All samples of an entry in one dtype, run as one graph."""

    outcomes: list[Outcome] = field(default_factory=list)
    again: dict[int, Outcome] = field(default_factory=dict)
    """The outcomes of second calls, by the number of the sample."""
    module: Module | None = None
    """The graph, if it was requested."""
    failure: str | None = None
    """The reason why the graph cannot run. Then no outcome has numbers."""


def on_device(frontend: Frontend, samples: Sequence[Sample], *, stock: bool, twice: int = 0) -> Run:
    """Run samples as one graph.

    Args:
        stock: call the functions that the samples mean without composites.
        twice: the number of samples that are called a second time.
    """
    done = Run()
    with torch.random.fork_rng(devices=()), frontend.running() as graph:
        for number, sample in enumerate(samples):
            function = (sample.reference or sample.function) if stock else sample.function
            done.outcomes.append(_attempt(sample, graph, function))
            if number < twice:
                done.again[number] = _attempt(sample, graph, function)
        every = [*done.outcomes, *done.again.values()]
        owns = frontend.tensors.owns
        tensors = [t for v in every if isinstance(v, Values) for t in v.tensors if owns(t)]
        try:
            if tensors and not stock:
                done.module = graph.stablehlo(tensors)
            if tensors:
                graph.run(tensors)
        except Exception as error:  # also errors of rules that lower the graph
            done.failure = f"the graph of all samples cannot run: {error}"
            failed = Raised(type(error).__name__, done.failure)
            done.outcomes, done.again = [failed for _ in samples], {}

        def fetched(tensor: torch.Tensor) -> torch.Tensor:
            value: torch.Tensor = graph.values(tensor) if owns(tensor) else tensor.cpu()
            return value

        done.outcomes = [_fetched(outcome, fetched) for outcome in done.outcomes]
        done.again = {number: _fetched(v, fetched) for number, v in done.again.items()}
    return done


def traced(frontend: Frontend, samples: Sequence[Sample]) -> list[Outcome]:
    """Call samples without running a graph."""
    with torch.random.fork_rng(devices=()), frontend.running() as graph:
        return [_attempt(sample, graph, sample.function) for sample in samples]


def _attempt(sample: Sample, graph: RunningGraph, function: Callable[..., Any]) -> Outcome:
    def convert(tensor: torch.Tensor) -> torch.Tensor:
        converted: torch.Tensor = graph.put(tensor)
        return converted.requires_grad_(tensor.requires_grad)

    torch.manual_seed(0)
    try:
        with graph.call():
            return evaluate(sample, convert, function)
    except Exception as error:
        return Raised.from_error(error)


def _fetched(outcome: Outcome, fetched: Callable[[torch.Tensor], torch.Tensor]) -> Outcome:
    if isinstance(outcome, Raised):
        return outcome
    try:
        return outcome.mapped(fetched)
    except RuntimeError as error:
        return Raised.from_error(error)
