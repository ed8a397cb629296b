"""`diagnose`: which composite of a program brings an error in, on a device or with kernels."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..comparison.difference import Difference, any_finite, default_tolerance, difference, error
from ..dtypes import static_tensor
from ..errors import RunError, StableHLOError
from ..module import Module
from ..passes.clean import clean
from ..run import main_types
from ..symbols import body, functions
from .devices import Compiled, Device, in_f64, on_platform
from .parts import Part, parts_of
from .results import OUTSIDE, DiagnosedPart, Diagnosis


@dataclass(frozen=True)
class Replay:
    """A part of a program with the reference's operands for it."""

    module: Module
    arrays: tuple[Any, ...]


def diagnose(
    module: Module,
    inputs: Sequence[Any],
    device: Device,
    *,
    f64: bool = False,
    tolerance: float | None = None,
    keep: Callable[[DiagnosedPart, Replay], None] = lambda part, replay: None,
) -> Diagnosis:
    """Run a program part by part on a device and on a reference, the CPU.

    A part is a composite of `@main`, or the operations between two composites. The device runs it
    on what the reference has computed before, and once more on what the device itself has.

    A part whose error is larger than the tolerance is also computed in f64. If the CPU is off by as
    much in the program's own types, as where a gradient is zero but for rounding, it is right.

    Args:
        module: the program. It is cleaned first.
        inputs: one array for each input of `@main`.
        device: what is diagnosed, of `devices`.
        f64: whether the reference computes in f64, and not in the program's types.
        tolerance: the largest error that counts as equal; by default as in `compare`.
        keep: called with each part and the operands that it had.

    Raises:
        RunError: there is no `@main`, the inputs are not those of `@main`, or the reference fails.
        StableHLOError: `@main` calls no composites.
    """
    module = clean(module)
    parts, in_regions = parts_of(module)
    check_inputs(main_types(module)[0], inputs)
    block = body(functions(module.ir)["main"])
    assert block is not None
    right = dict(zip(block.arguments, inputs, strict=True))
    computed = dict(right)
    on_device, plain, exact = map(_Compiler, (device, on_platform("cpu"), in_f64))
    reference = exact if f64 else plain
    rows, number = [], 0
    for part in parts:
        number += part.call is not None
        lone = part.module(module)
        arrays = tuple(right[value] for value in part.inputs)
        expected = reference(lone).run(*arrays)
        run = _Run(part, lone, number, arrays, expected, plain, exact, tolerance)
        row, following = run.on(on_device, [computed[value] for value in part.inputs])
        keep(row, Replay(lone, arrays))
        rows.append(row)
        right |= zip(part.outputs, expected, strict=True)
        computed |= zip(part.outputs, following, strict=True)
        for value in part.released:
            del right[value], computed[value]
    return Diagnosis(module.name, tuple(rows), in_regions)


def check_inputs(types: Sequence[str], arrays: Sequence[Any]) -> None:
    """Check that arrays are inputs of a program.

    Raises:
        RunError: there are others, or sizes of the program vary.
    """
    if len(types) != len(arrays):
        raise RunError(f"@main takes {len(types)} inputs, got {len(arrays)}")
    for number, (type_, array) in enumerate(zip(types, arrays, strict=True)):
        static = static_tensor(type_)
        if static is None:
            raise RunError(
                f"input {number} of @main is {type_}; only programs with fixed sizes run"
            )
        if (array.shape, array.dtype) != static:
            raise RunError(
                f"input {number} of @main is {type_}, got an array of shape {array.shape} and dtype"
                f" {array.dtype}"
            )


_AS_MUCH = 4
"""A device may be off by this many times the error of the CPU, which rounds in another order."""


class _Compiler:
    """Compiles equal parts once."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._compiled: dict[bytes, Compiled | StableHLOError] = {}

    def __call__(self, part: Module) -> Compiled:
        key = hashlib.sha256(part.text.encode()).digest()
        if key not in self._compiled:
            try:
                self._compiled[key] = self._device(part)
            except StableHLOError as error:
                self._compiled[key] = error
        compiled = self._compiled[key]
        if isinstance(compiled, StableHLOError):
            raise compiled
        return compiled


@dataclass(frozen=True)
class _Run:
    """One part, and what the reference gives for it."""

    part: Part
    module: Module
    number: int
    arrays: Sequence[Any]
    """The operands as the reference has computed them."""
    expected: Sequence[Any]
    plain: _Compiler
    exact: _Compiler
    given_tolerance: float | None

    def on(self, device: _Compiler, own: Sequence[Any]) -> tuple[DiagnosedPart, Sequence[Any]]:
        """Run the part on a device, with the reference's operands and with those that the device
        has computed. Returns the results of the latter too; the reference's where it fails."""
        compiled = None
        try:
            compiled = device(self.module)
            got = compiled.run(*self.arrays)
            same = all(map(_is_same, own, self.arrays))
            following = got if same else compiled.run(*own)
        except StableHLOError as failure:
            return self._row(compiled, None, None, str(failure)), self.expected
        alone, added = self._difference(got), self._difference(following)
        return self._row(compiled, alone, added, self._problem(alone)), following

    @property
    def _types(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return main_types(self.module)

    @property
    def _tolerance(self) -> float:
        if self.given_tolerance is not None:
            return self.given_tolerance
        inputs, outputs = self._types
        return default_tolerance((*inputs, *outputs))

    @property
    def _rounding(self) -> float:
        """The error of the CPU in the program's own types."""
        try:
            plain, exact = (
                each(self.module).run(*self.arrays) for each in (self.plain, self.exact)
            )
        except RunError:
            return 0.0
        return error(plain, exact)

    def _difference(self, got: Sequence[Any]) -> Difference:
        return difference(got, self.expected, self._types[1])

    def _problem(self, own: Difference) -> str | None:
        if not any_finite(self.expected):
            return "the reference gives no finite number, so there is nothing to compare"
        if own.error <= self._tolerance or own.error <= _AS_MUCH * self._rounding:
            return None
        return f"its error is {own.error:.2g}, and {self._tolerance:.2g} is allowed"

    def _row(
        self,
        compiled: Compiled | None,
        own: Difference | None,
        added: Difference | None,
        problem: str | None,
    ) -> DiagnosedPart:
        call = self.part.call
        inputs, outputs = self._types
        where = f"{OUTSIDE}, behind call {self.number}"
        if call is not None:
            where = f"{call.name}, call {self.number} of the program"
        return DiagnosedPart(
            composite=OUTSIDE if call is None else call.name,
            version=0 if call is None else call.version,
            attributes={} if call is None else call.python_attributes(),
            operands=inputs if call is None else call.operands,
            results=outputs if call is None else call.results,
            number=self.number,
            node=self.part.node,
            kernel=None if compiled is None else compiled.kernel,
            why_no_kernel=None if compiled is None else compiled.why_no_kernel,
            tolerance=self._tolerance,
            own=own,
            added=added,
            problem=None if problem is None else f"{where}: {problem}",
        )


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two arrays have the same bits."""
    return one is other or one.tobytes() == other.tobytes()
