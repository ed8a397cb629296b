"""`diagnose`: the composites of a program that introduce errors, on a device or with kernels."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from ..bindings import find_operations
from ..comparison.difference import Difference, any_finite, default_tolerance, difference, error
from ..composites import NameAndVersion, Signature, composite_name, signature
from ..errors import RunError, StableHLOError
from ..inspection.report import CompositeReport, distinct_calls
from ..module import Module
from ..passes.clean import clean
from ..run import check_arrays, main_types
from ..symbols import COMPOSITE, body, functions
from .clock import Clock, Time
from .devices import Device, in_f64, on_platform
from .parts import split_main
from .results import OUTSIDE, DiagnosedCall, DiagnosedComposite, Diagnosis

R = TypeVar("R")

_AS_MUCH = 4
"""The factor by which a device's error may exceed the CPU's, which rounds in another order."""


@dataclass(frozen=True)
class ReplayPart:
    """A part of a program, and the reference's operands for it."""

    part: Module
    arrays: tuple[Any, ...]


@dataclass(frozen=True)
class _Outcome:
    """The numbers of a part."""

    expected: Sequence[Any]
    following: Sequence[Any]
    """The device's results on operands of its own; the expected results if it fails."""
    limit: float
    own: Difference | None = None
    added: Difference | None = None
    repeats: bool = True
    problem: str | None = None
    time: Time | None = None


@dataclass(eq=False)
class Diagnoser:
    """Runs a program part by part on a device and on the CPU as a reference, for any number of sets
    of inputs. Compiled parts are kept.

    A part is a composite of `@main`, or the operations between two composites. The first iteration
    of a loop with composites has parts too, even if the loop runs no iteration. The device runs a
    part twice on values that the reference has computed, which has to give the same bits, and once
    on values that the device itself has computed.

    A part whose error is larger than the tolerance is also computed in f64. If the error of the CPU
    in the program's own types is as large, as for a gradient that is zero except for rounding, the
    part is right.
    """

    module: Module
    """The program. It is cleaned first."""
    device: Device
    """The device to diagnose; see `devices`."""
    _: KW_ONLY
    f64: bool = False
    """True if the reference computes in f64, and not in the program's types."""
    tolerance: float | None = None
    """The largest error that counts as equal; by default as in `compare`."""
    tolerances: Mapping[NameAndVersion, Mapping[str, float]] = field(default_factory=dict)
    """The tolerances that entries set, by element type. They replace the default tolerances."""
    kernels: Mapping[Signature, str] = field(default_factory=dict)
    """The names of kernels by call, for the report."""
    clock: Clock | None = None
    """The clock that times each part on the device; None for no times."""

    def __post_init__(self) -> None:
        self.module = clean(self.module)
        self.device = _once(self.device)
        self.plain = _once(on_platform("cpu"))
        self.exact = _once(in_f64)

    def run(self, inputs: Sequence[Any]) -> tuple[Diagnosis, Mapping[int, ReplayPart]]:
        """Run the program part by part.

        Args:
            inputs: one array for each input of `@main`.

        Returns:
            The diagnosis, and the worst call of each composite with wrong calls, by its number.

        Raises:
            RunError: there is no `@main` with one block, the inputs do not fit, or the CPU fails.
            StableHLOError: `@main` calls no composites.
        """
        module = self.module
        check_arrays(main_types(module)[0], inputs)
        main = functions(module.ir)["main"]
        block = body(main)
        if block is None:
            raise RunError("@main has several blocks; only a program with one can be run in parts")
        outside = CompositeReport(OUTSIDE, 0, {}, (), (), 1, 0, 0, 0.0)
        reports: dict[Signature | None, CompositeReport] = {None: outside}
        reports |= {call: report for (call, _), report in distinct_calls(module).items()}
        right = dict(zip(block.arguments, inputs, strict=True))
        computed = dict(right)
        rows: dict[Signature | None, list[DiagnosedCall]] = {}
        limits: dict[Signature | None, float] = {}
        times: dict[Signature | None, list[Time]] = {}
        replays: dict[Signature, tuple[int, ReplayPart]] = {}
        number = 0
        parts = split_main(main)
        for part in parts:
            call = None if part.composite is None else signature(part.composite)
            number += call is not None
            replay = ReplayPart(part.module(module), tuple(right[value] for value in part.sources))
            outcome = self._outcome(call, replay, [computed[value] for value in part.sources])
            behind = "behind " if call is None else ""
            where = f"{reports[call].name}, {behind}call {number} of the program"
            if part.in_loop:
                where += ", in the first iteration of a loop, which may not run"
            problem = outcome.problem and f"{where}: {outcome.problem}"
            numbers = outcome.own, outcome.added, outcome.repeats
            row = DiagnosedCall(number, part.node, *numbers, problem, part.in_loop)
            rows.setdefault(call, []).append(row)
            limits[call] = max(outcome.limit, limits.get(call, 0.0))
            if outcome.time is not None and not part.in_loop:  # included in the time of the loop
                times.setdefault(call, []).append(outcome.time)
            if call is not None and problem and row is max(rows[call], key=lambda c: c.rank):
                replays[call] = (number, replay)
            right |= zip(part.outputs, outcome.expected, strict=True)
            computed |= zip(part.outputs, outcome.following, strict=True)
            for value in part.released:
                del right[value], computed[value]
        names: Mapping[Any, str] = self.kernels
        totals = {call: Time.total(measured) for call, measured in times.items()}
        step = sum(time.seconds for time in totals.values())
        gains = {call: time.excess / step for call, time in totals.items() if step}
        composites = [
            DiagnosedComposite(
                *(reports[call], names.get(call), limits[call], tuple(calls)),
                *(totals.get(call), gains.get(call)),
            )
            for call, calls in rows.items()
        ]
        composites.sort(key=lambda composite: composite.rank, reverse=True)
        peaks = None if self.clock is None else self.clock.peaks
        alone = {part.operations[-1] for part in parts}
        parents = {c: c.parent.operation for c in find_operations(main, COMPOSITE)}
        left_out = tuple(
            f"{composite_name(c)} in {o.name}" for c, o in parents.items() if c not in alone
        )
        return Diagnosis(module.name, tuple(composites), left_out, peaks), dict(replays.values())

    def _outcome(
        self, call: Signature | None, replay: ReplayPart, computed: Sequence[Any]
    ) -> _Outcome:
        """Run a part. `computed` holds the operands that the device has computed."""
        part, arrays = replay.part, replay.arrays
        expected = (self.exact if self.f64 else self.plain)(part)(*arrays)
        types, results = main_types(part)
        limit = self.tolerance
        if limit is None:
            special = self.tolerances.get((call.name, call.version)) if call else None
            limit = default_tolerance((*types, *results), special)
        try:
            run = self.device(part)
            got, again = run(*arrays), run(*arrays)
            following = again if all(map(_is_same, computed, arrays)) else run(*computed)
            time = None
            if self.clock is not None:
                time = self.clock.time(run, arrays, part, self.plain(part))
        except StableHLOError as failure:
            return _Outcome(expected, expected, limit, problem=str(failure))
        first, second, added = (
            difference(actual, expected, results) for actual in (got, again, following)
        )
        own = max(first, second, key=lambda d: d.error)
        repeats = all(map(_is_same, got, again))
        problem = None
        if not any_finite(expected):
            problem = (
                "the reference gives no finite number, so there is nothing to compare; give inputs"
            )
        elif own.error > limit and own.error > _AS_MUCH * self._rounding(replay):
            problem = f"its error is {own.error:.2g}, and {limit:.2g} is allowed"
        if not repeats and error(again, got) > limit:
            noise = f"it gives other results for the same operands, off by {error(again, got):.2g}"
            problem = noise if problem is None else f"{noise}; {problem}"
        return _Outcome(expected, following, limit, own, added, repeats, problem, time)

    def _rounding(self, replay: ReplayPart) -> float:
        """The error of the CPU in the program's own types. An infinite error counts as 0: an
        overflow on the CPU excuses no other error."""
        plain, exact = (run(replay.part)(*replay.arrays) for run in (self.plain, self.exact))
        rounding = error(plain, exact)
        return rounding if math.isfinite(rounding) else 0.0


def _once(device: Callable[[Module], R]) -> Callable[[Module], R]:
    """A device that compiles equal parts once."""
    compiled: dict[str, R] = {}

    def compile_part(part: Module) -> R:
        text = part.text
        if text not in compiled:
            compiled[text] = device(part)
        return compiled[text]

    return compile_part


def _is_same(left: Any, right: Any) -> bool:
    """Return whether two arrays have the same bits."""
    return left is right or left.tobytes() == right.tobytes()
