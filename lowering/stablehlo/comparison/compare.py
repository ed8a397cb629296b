"""`compare`: kernels against the decompositions of their composites.

Each distinct call (version, attributes, types, decomposition) becomes two small modules, one with
the decomposition and one with the kernel; see `single_calls`. A third module computes the
decomposition in f64. All run on the same operands.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..candidates import Candidate
from ..composites import NameAndVersion, Signature
from ..errors import RunError, StableHLOError, UnsupportedOperationError
from ..inspection.report import CompositeReport, distinct_calls
from ..kernels import named_kernels, put_alone
from ..module import Module
from ..passes.clean import clean
from ..passes.compute_in_f64 import compute_in_f64
from ..run import compile_module, main_types
from ..single_calls import decomposition_module, with_unreadable_attributes
from .difference import any_finite, default_tolerance, error
from .inputs import Inputs, make_inputs, real_inputs
from .results import ComparedCall, Comparison, Numbers
from .timing import kernel_bytes, machine, median_times, moved_bytes

LARGEST_INPUTS = 2**30
"""Programs with more bytes of inputs are not run to compare them."""


@dataclass(frozen=True)
class _Case:
    """A call, with everything needed to run it."""

    module: Module
    call: Signature
    decomposition: str
    kernel: Candidate
    inputs: Inputs | None
    """The inputs of the call; None to make inputs."""
    tolerance: float
    platform: str
    timed: bool

    def with_kernel(self) -> Module:
        """A module that holds only the call, with the kernel instead of the composite."""
        return put_alone(self.module, self.call, self.kernel, self.platform)


def compare(
    module: Module,
    bindings: Mapping[str, Callable[..., Any]] | None = None,
    *,
    targets: Mapping[str, str] | None = None,
    ignored: Mapping[str, Collection[str]] | None = None,
    inputs: Sequence[Any] | None = None,
    tolerance: float | None = None,
    tolerances: Mapping[NameAndVersion, Mapping[str, float]] | None = None,
    platform: str = "cpu",
    timed: bool = True,
) -> Comparison:
    """Run decomposition and kernel of each distinct call of composites on the same operands.

    The module is cleaned first. Keys are names (`acme.gelu`) or names with a version
    (`acme.gelu@2`), as in `bind` and `to_custom_call`.

    Args:
        module: the program that calls the composites.
        bindings: JAX functions, as in `bind`. Further results of a function, such as values for a
            backward, are dropped if the call does not have them. `bind` refuses such a function.
        targets: targets of XLA's typed FFI, as in `to_custom_call`. Targets have to be registered.
        ignored: attributes that a kernel may ignore, by composite. A kernel that ignores another
            attribute is a problem, even if its numbers are right.
        inputs: arrays for `@main`. Calls in `@main` then run on the values that the program
            computes from them. By default, and for calls inside decompositions, operands are made
            from their types.
        tolerance: the largest error that counts as equal; by default 1e-12 for f64, 1e-5 for f32,
            4e-3 for f16 and 2e-2 for bf16, by the least precise float of the call.
        tolerances: the tolerances of entries, by element type, instead of the default ones.
        platform: the platform of jax to run on.
        timed: True to time the calls, which takes most of the time of small calls.

    Raises:
        UnknownCompositeError: the module has no composite of a name.
        CompositeVersionError: the module has another version of the composite.
        StableHLOError: no kernel is given, one composite is given twice, or the tolerance
            is not a number from 0.
    """
    if tolerance is not None and not tolerance >= 0:  # nan too
        raise StableHLOError(
            f"the tolerance must be a number from 0, such as 1e-5, not {tolerance}"
        )
    bindings, targets = bindings or {}, targets or {}
    twice = bindings.keys() & targets.keys()
    if twice:
        raise StableHLOError(
            f"{', '.join(sorted(twice))}: both a function and a target are given; give one of them"
        )
    if not bindings and not targets:
        raise StableHLOError("nothing to compare: name a kernel of at least one composite (--bind)")
    module = clean(module)
    candidates = named_kernels(module, {**bindings, **targets}, ignored)
    real = {} if inputs is None else real_inputs(module, inputs, platform)
    rows = []
    for (call, decomposition), report in distinct_calls(module).items():
        special = (tolerances or {}).get((call.name, call.version))
        default = default_tolerance((*call.operands, *call.results), special)
        for candidate in candidates(call):
            case = _Case(
                module=module,
                call=call,
                decomposition=decomposition,
                # Like a listed kernel, it may also return the values that an entry saves.
                kernel=replace(candidate, listed_as=candidate.name),
                inputs=real.get((call, decomposition)),
                tolerance=default if tolerance is None else tolerance,
                platform=platform,
                timed=timed,
            )
            rows.append(_compared(case, report))
    return Comparison(module.name, machine(platform), tuple(rows))


def _compared(case: _Case, report: CompositeReport) -> ComparedCall:
    size, numbers, problem = 0, None, None
    try:
        size = kernel_bytes(decomposition_module(case.module, case.decomposition))
        numbers, inputs = _run(case)
        problem = _problem(case, numbers, inputs)
    except StableHLOError as failure:
        text = str(failure)
        problem = text if text.startswith(case.call.name) else f"{case.call}: {text}"
    return ComparedCall(
        call=report,
        kernel=case.kernel.name,
        bytes=size,
        bound_seconds=size / machine(case.platform).copy_bandwidth,
        tolerance=case.tolerance,
        numbers=numbers,
        problem=problem,
    )


def _run(case: _Case) -> tuple[Numbers, Inputs]:
    """Run the decomposition, the decomposition in f64 and the kernel on the same operands.

    Raises:
        StableHLOError: the kernel or the decomposition is refused, or fails.
    """
    plain = decomposition_module(case.module, case.decomposition)
    reference = compile_module(plain, platform=case.platform)
    kernel = compile_module(case.with_kernel(), platform=case.platform)
    inputs = make_inputs(plain, reference) if case.inputs is None else case.inputs
    expected, got = reference(*inputs.arrays), kernel(*inputs.arrays)
    if not any_finite(expected):
        raise RunError(
            f"the decomposition gives no finite number for {inputs.source} operands, so there is "
            "nothing to compare; give inputs"
        )
    exact, why_not = _in_f64(plain, inputs, case.platform)
    reference_seconds, kernel_seconds = (
        median_times([reference, kernel], inputs.arrays) if case.timed else (None, None)
    )
    numbers = Numbers(
        inputs=inputs.source,
        error=error(got, expected),
        kernel_error=None if exact is None else error(got, exact),
        decomposition_error=None if exact is None else error(expected, exact),
        why_not_f64=why_not,
        kernel_seconds=kernel_seconds,
        decomposition_seconds=reference_seconds,
    )
    return numbers, inputs


def _in_f64(
    decomposition: Module, inputs: Inputs, platform: str
) -> tuple[list[Any] | None, str | None]:
    """The results of a decomposition in f64, or None and the reason."""
    try:
        wide = compile_module(compute_in_f64(decomposition), platform=platform)
        return wide(*inputs.arrays), None
    except (UnsupportedOperationError, RunError) as failure:
        return None, str(failure)


def _problem(case: _Case, numbers: Numbers, inputs: Inputs) -> str | None:
    if not numbers.error <= case.tolerance:
        return (
            f"{case.call}: {case.kernel.name} differs from the decomposition; its error is "
            f"{numbers.error:.2g}, and {case.tolerance:.2g} is allowed{_remark_on_operands(case)}"
        )
    if isinstance(case.kernel.kernel, str) and _reads_no_attribute(case, inputs):
        names = ", ".join(sorted(case.call.python_attributes().keys() - case.kernel.ignored))
        return (
            f"{case.call}: {case.kernel.name} does not read {names}, which the call sets; let it "
            f"read {names}, or list {names} as ignored if the result does not depend on it"
        )
    return None


def _remark_on_operands(case: _Case) -> str:
    """A remark on random operands of a backward. The gradient of a norm may use saved statistics,
    or compute them again. Both are correct, but they differ if mean and x are random."""
    if case.inputs is not None or not case.call.name.endswith("_backward"):
        return ""
    return (
        " (for random operands; if the backward takes values that the forward saves, give inputs of"
        " the program, from which all operands are computed: --inputs FILE.npz, or inputs=)"
    )


def _reads_no_attribute(case: _Case, inputs: Inputs) -> bool:
    """Return whether a target accepts attributes of types that it cannot read.

    XLA checks the attributes of a call against those that a target reads, unless it reads none.
    """
    if not case.call.python_attributes().keys() - case.kernel.ignored:
        return False
    strange = with_unreadable_attributes(case.with_kernel())
    try:
        compile_module(strange, platform=case.platform)(*inputs.arrays)
    except RunError:
        return False
    return True


def program_difference(left: Module, right: Module) -> str | None:
    """The difference of two programs; None if they give the same numbers for inputs of their types.

    Both run once on the CPU, unless their inputs are too large.

    Raises:
        RunError: XLA rejects one of the programs.
    """
    inputs, outputs = main_types(left)
    if (inputs, outputs) != main_types(right):
        return "it has inputs or outputs of other types"
    if moved_bytes(inputs) > LARGEST_INPUTS:
        return "its inputs are too large to run it and compare"
    run_left, run_right = (compile_module(module) for module in (left, right))
    arrays = make_inputs(left, run_left).arrays
    off = error(run_left(*arrays), run_right(*arrays))
    # The result with the least precise type decides; integers and booleans must be equal. Errors of
    # many operations add up. A program with another meaning differs by much more.
    allowed = 100 * default_tolerance([*inputs, *outputs])
    return f"it gives other numbers (error {off:.1e})" if off > allowed else None
