"""`bisect`: the smallest sets of kernels that make a program, run step by step, leave a tolerance.

kernels {a, b, c, d}, of which b is wrong, and c with d together
    -> all of them          leaves the tolerance
    -> {a, b}, {b}          leave it: b is a set
    -> {a, c, d}, {c, d}    leave it, and {c}, {d} do not: {c, d} is a set
    -> {a}                  does not
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from ..comparison.difference import any_finite, default_tolerance, error
from ..composites import Signature
from ..errors import RunError, StableHLOError
from ..inspection.report import report_json
from ..inspection.table import report_table
from ..kernels import KernelUse, PlacedKernels, distinct, put
from ..module import Module
from ..passes.decompose import decompose
from ..run import compile_module, main_types

if TYPE_CHECKING:
    from rich.table import Table

T = TypeVar("T")


@dataclass(frozen=True)
class Breaking:
    """A set of kernels that makes the results leave the tolerance, and no part of which does."""

    kernels: tuple[KernelUse, ...]
    step: int
    """The first step whose results are wrong, from 1."""
    error: float | None
    """The error of this step; None if it fails."""
    problem: str
    """The reason why the set is wrong."""


@dataclass(frozen=True)
class Bisection:
    """The result of `bisect`."""

    steps: int
    """The number of steps that were run with each set."""
    tolerance: float
    """The largest error that counts as equal."""
    kernels: int
    """The number of calls that have kernels."""
    runs: int
    """The number of sets that were tried."""
    sets: tuple[Breaking, ...]
    """Sets that have no kernel in common; empty if all kernels together are right."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The problem of each set, with its kernels; empty if all kernels are right."""
        return tuple(
            f"{' with '.join(f'{use.kernel} for {use}' for use in each.kernels)}: {each.problem}"
            for each in self.sets
        )

    def to_json(self) -> str:
        """The bisection as JSON. Infinities and NaN are written as text."""
        return report_json(self)

    def table(self) -> "Table":
        """A row for each kernel of each set."""
        rows = [
            (str(use), use.kernel or "", str(number), str(each.step))
            for number, each in enumerate(self.sets, 1)
            for use in each.kernels
        ]
        caption = f"{self.runs} sets were tried, {self.steps} steps each"
        return report_table(
            ("call", "kernel"),
            ("set", "step"),
            rows,
            "kernels that are wrong together",
            caption,
        )


def bisect(
    placed: PlacedKernels,
    inputs: Sequence[Any],
    *,
    platform: str,
    steps: int,
    updates: Mapping[int, int],
    compared: Sequence[int],
    tolerance: float | None = None,
) -> Bisection:
    """Find the smallest sets of kernels with which a program leaves the tolerance within steps.

    The reference is the program without kernels, on the same platform. The sets are found by delta
    debugging: kernels are taken away for as long as what is left is wrong. Then all kernels but
    those of the set are tried, until what is left is right.

    Args:
        placed: the program, with the kernels that take its calls.
        inputs: one array for each input of `@main`.
        platform: the platform of jax to run on.
        steps: the number of steps.
        updates: the outputs whose values a step passes on, and the inputs that get them.
        compared: the numbers of the outputs that are compared.
        tolerance: the largest error that counts as equal; by default as in `compare`.

    Raises:
        RunError: the inputs are not the program's, or the reference gives no finite number.
        StableHLOError: the program without kernels fails.
    """
    types, results = main_types(placed.original)
    limit = default_tolerance((*types, *results)) if tolerance is None else tolerance
    expected: list[list[Any]] = []
    for outputs in _steps(placed.original, inputs, platform, steps, updates):
        expected.append([outputs[number] for number in compared])
        if not any_finite(expected[-1]):
            raise RunError(
                f"without kernels, step {len(expected)} gives no finite number, so there is nothing"
                " to compare; give inputs, or fewer steps"
            )

    @cache
    def broken(calls: frozenset[Signature]) -> Breaking | None:
        kernels = tuple(placed.use(call, 0) for call in placed.taken if call in calls)
        step = 1
        try:
            chosen = {call: placed.taken[call] for call in calls}
            module = decompose(put(placed.original, chosen, platform=platform))
            for outputs in _steps(module, inputs, platform, steps, updates):
                off = error([outputs[number] for number in compared], expected[step - 1])
                if not off <= limit:
                    problem = f"the error of step {step} is {off:.2g}, and {limit:.2g} is allowed"
                    return Breaking(kernels, step, off, problem)
                step += 1
        except StableHLOError as failure:
            return Breaking(kernels, step, None, str(failure))
        return None

    calls = [call for call in distinct(placed.original) if call in placed.taken]
    sets: list[Breaking] = []
    left = calls
    while left and broken(frozenset(left)) is not None:
        smallest = minimal(left, lambda some: broken(frozenset(some)) is not None)
        found = broken(frozenset(smallest))
        assert found is not None
        sets.append(found)
        left = [call for call in left if call not in smallest]
    return Bisection(steps, limit, len(calls), broken.cache_info().misses, tuple(sets))


def minimal(items: Sequence[T], is_wrong: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """The smallest part of a wrong sequence that delta debugging finds: it is wrong, and right
    without any one of its items."""
    count = 2
    while len(items) > 1:
        size = -(-len(items) // count)
        parts = [items[start : start + size] for start in range(0, len(items), size)]
        others = [[item for item in items if item not in part] for part in parts]
        smaller = next(filter(is_wrong, (*parts, *others)), None)
        if smaller is not None:
            items, count = smaller, 2 if smaller in parts else max(len(parts) - 1, 2)
        elif size == 1:
            break
        else:
            count *= 2
    return items


def _steps(
    module: Module, inputs: Sequence[Any], platform: str, steps: int, updates: Mapping[int, int]
) -> Iterator[Sequence[Any]]:
    """The outputs of each step, whose state goes to the next one."""
    run = compile_module(module, platform=platform)
    arrays = list(inputs)
    for _ in range(steps):
        outputs = run(*arrays)
        yield outputs
        for output, input_ in updates.items():
            arrays[input_] = outputs[output]
