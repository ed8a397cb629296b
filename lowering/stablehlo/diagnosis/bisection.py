"""`bisect`: the smallest sets of kernels with which the steps of a program exceed a tolerance.

kernels {a, b, c, d}, of which b is wrong, and c with d together
    -> {a, b, c, d}         exceeds the tolerance
    -> {a, b}, {b}          exceed it: {b} is a set
    -> {a, c, d}, {c, d}    exceed it, and {c}, {d} do not: {c, d} is a set
    -> {a}                  does not exceed it
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from ..comparison.difference import any_finite, default_tolerance, error
from ..composites import Signature
from ..errors import RunError, StableHLOError
from ..inspection.report import JsonReport
from ..kernels import KernelUse, PlacedKernels, put
from ..module import Module
from ..passes.decompositions import decompose
from ..run import compile_module, main_types
from ..seeds import next_seed

T = TypeVar("T")


@dataclass(frozen=True)
class Steps:
    """Several runs of a program, each of which continues with the state of the one before."""

    inputs: Sequence[Any]
    """One array for each input of `@main`."""
    count: int
    updates: Mapping[int, int]
    """The number of the input that an output updates for the next step, by number of the output."""
    compared: Sequence[int]
    """The numbers of the outputs that are compared."""
    seed: int | None = None
    """The number of the input that is the random seed; each step has its own."""
    platform: str = "cpu"
    """The platform of jax to run on."""

    def results(self, module: Module) -> Iterator[list[Any]]:
        """The outputs of each step that are compared."""
        run, arrays = compile_module(module, platform=self.platform), list(self.inputs)
        for _ in range(self.count):
            outputs = run(*arrays)
            yield [outputs[number] for number in self.compared]
            for output, updated in self.updates.items():
                arrays[updated] = outputs[output]
            if self.seed is not None and self.seed not in self.updates.values():
                arrays[self.seed] = next_seed(np.asarray(arrays[self.seed]))


@dataclass(frozen=True)
class Breaking:
    """A set of kernels that is wrong together, and right if any kernel is removed."""

    kernels: tuple[KernelUse, ...]
    step: int
    """The first step whose results are wrong, from 1."""
    problem: str


@dataclass(frozen=True)
class Bisection(JsonReport):
    """The result of `bisect`."""

    steps: int
    """The number of steps that were run with each set."""
    tolerance: float
    """The largest error that counts as equal."""
    sets: tuple[Breaking, ...]
    """Sets that have no kernel in common; empty if all kernels together are right."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The kernels of each set, and their error; empty if all kernels are right."""
        return tuple(
            f"{' with '.join(f'{use.kernel} for {use}' for use in wrong.kernels)}: {wrong.problem}"
            for wrong in self.sets
        )


def bisect(placed: PlacedKernels, steps: Steps, tolerance: float | None = None) -> Bisection:
    """Find the smallest sets of kernels with which a program exceeds the tolerance within steps.

    The reference is the program without kernels, on the same platform. After a set is found, all
    other kernels are tried, until the remaining ones are right.

    Args:
        placed: the program, with the kernels that take its calls.
        steps: the runs of the program.
        tolerance: the largest error that counts as equal; by default as in `compare`.

    Raises:
        RunError: the inputs do not fit the program, or the reference gives no finite number.
        StableHLOError: the program without kernels fails.
    """
    types, results = main_types(placed.original)
    limit = default_tolerance((*types, *results)) if tolerance is None else tolerance
    expected = list(steps.results(placed.original))
    for number, right in enumerate(expected, 1):
        if not any_finite(right):
            raise RunError(
                f"without kernels, step {number} gives no finite number, so there is nothing to"
                " compare; give inputs, or fewer steps"
            )

    @cache
    def breaking(calls: frozenset[Signature]) -> Breaking | None:
        kernels, step = tuple(placed.use(call, 0) for call in placed.taken if call in calls), 1
        try:
            chosen = {call: placed.taken[call] for call in calls}
            module = decompose(put(placed.original, chosen, platform=steps.platform))
            for step, got in enumerate(steps.results(module), 1):
                off = error(got, expected[step - 1])
                if not off <= limit:
                    problem = f"the error of step {step} is {off:.2g}, and {limit:.2g} is allowed"
                    return Breaking(kernels, step, problem)
        except StableHLOError as failure:
            return Breaking(kernels, step, str(failure))
        return None

    sets: list[Breaking] = []
    remaining: Sequence[Signature] = list(placed.taken)
    while remaining and breaking(frozenset(remaining)) is not None:
        smallest = minimal(remaining, lambda calls: breaking(frozenset(calls)) is not None)
        sets += filter(None, [breaking(frozenset(smallest))])
        remaining = [call for call in remaining if call not in smallest]
    return Bisection(steps.count, limit, tuple(sets))


def minimal(items: Sequence[T], is_wrong: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """The smallest part of a wrong sequence that delta debugging finds. The part is wrong, and
    right if any of its items is removed."""
    count = 2
    while len(items) > 1:
        size = -(-len(items) // count)
        parts = [items[start : start + size] for start in range(0, len(items), size)]
        complements = [[item for item in items if item not in part] for part in parts]
        smaller = next(filter(is_wrong, (*parts, *complements)), None)
        if smaller is not None:
            items, count = smaller, 2 if smaller in parts else max(len(parts) - 1, 2)
        elif size == 1:
            break
        else:
            count *= 2
    return items
