"""Kernels instead of composites: the kernel of each call, or the reason why a call has none."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from composites.lazy_modules import np

from .bindings import find_operations, string_value
from .candidates import Candidate, Kernel, named_candidates
from .composites import Signature, call_counts, signature
from .dtypes import static_tensor
from .errors import StableHLOError
from .ir_types import IrOperation
from .module import Module
from .passes.bind import bind_calls
from .passes.decompositions import decompose
from .passes.to_custom_call import replace_calls
from .run import compile_module
from .single_calls import call_module
from .symbols import COMPOSITE, CUSTOM_CALL, callees_first, executions, functions, target, walk_uses

NOT_LISTED = "no kernel is listed"


@dataclass(frozen=True, slots=True)
class KernelUse:
    """One distinct call of a composite, and the kernel that takes it."""

    composite: str
    version: int
    attributes: Mapping[str, Any]
    operands: tuple[str, ...]
    results: tuple[str, ...]
    count: int
    """The number of such calls in the program. A call in a loop counts once."""
    kernel: str | None
    """The name of the function or of the target; None if no kernel takes the call."""
    alternative: str | None
    """The faster alternative that takes the call, such as `ptxla.topk=maxima`. Without it and
    without a kernel, the program's own decomposition stays."""
    reason: str | None
    """The reasons why kernels that were tried before do not take the call; None without any."""

    def __str__(self) -> str:
        text = ", ".join(f"{name}={value!r}" for name, value in self.attributes.items())
        types = f"({', '.join(self.operands)}) -> ({', '.join(self.results)})"
        return f"{self.composite}@{self.version}{types}" + (f" with {text}" if text else "")


Candidates: TypeAlias = Callable[[Signature], Sequence[Candidate]]
"""The kernels for a call, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class PlacedKernels:
    """A module with kernels instead of composites."""

    module: Module
    original: Module
    """The module with the composites."""
    taken: Mapping[Signature, Candidate]
    """The calls that have a kernel or an alternative."""
    reasons: Mapping[Signature, str]
    """The reasons why candidates that were tried before do not take a call, if there are any."""

    @property
    def has_kernels(self) -> bool:
        return any(not taking.is_alternative for taking in self.taken.values())

    @property
    def uses(self) -> tuple[KernelUse, ...]:
        """The distinct calls, in the order of the program, without calls inside decompositions that
        a kernel or an alternative has replaced."""
        return tuple(self.by_call.values())

    @property
    def by_call(self) -> dict[Signature, KernelUse]:
        """`uses` by call."""
        counts: dict[Signature, int] = {}
        for (call, _), count in outer_calls(self.original, self.taken).items():
            counts[call] = counts.get(call, 0) + count
        return {call: self.use(call, count) for call, count in counts.items()}

    @property
    def inside(self) -> dict[Signature, list[str]]:
        """The kernels of the calls inside the decomposition of each call that has no kernel."""
        ir = self.original.ir
        bodies = functions(ir)
        by_function: dict[str, dict[str, None]] = {}
        by_call: dict[Signature, list[str]] = {}
        for name in callees_first(ir):
            kernels = by_function[name] = {}
            for operation in walk_uses(bodies[name]):
                reached = by_function[target(operation)]
                if operation.name == COMPOSITE:
                    call = signature(operation)
                    taking = self.taken.get(call)
                    reached = reached if taking is None else {f"{call.name}: {taking.name}": None}
                    by_call[call] = [] if taking else list(reached)
                kernels.update(reached)
        return by_call

    def use(self, call: Signature, count: int) -> KernelUse:
        """The kernel use of a call that occurs `count` times in the program."""
        taking = self.taken.get(call)
        named = None if taking is None else taking.name
        is_alternative = taking is not None and taking.is_alternative
        return KernelUse(
            composite=call.name,
            version=call.version,
            attributes=call.python_attributes(),
            operands=call.operands,
            results=call.results,
            count=count,
            kernel=None if is_alternative else named,
            alternative=named if is_alternative else None,
            reason=self.reasons.get(call),
        )


def named_kernels(
    module: Module,
    kernels: Mapping[str, Kernel],
    ignored: Mapping[str, Collection[str]] | None = None,
) -> Candidates:
    """The candidates for kernels that are named for each composite.

    Args:
        module: the program.
        kernels: a function or a target for each composite, by name (`acme.gelu`) or by name and
            version (`acme.gelu@2`).
        ignored: attributes that a kernel ignores, by composite.

    Raises:
        UnknownCompositeError: the module has no composite of a name.
        CompositeVersionError: the module has another version of the composite.
    """
    for name, kernel in kernels.items():
        if not callable(kernel) and not isinstance(kernel, str):
            raise StableHLOError(
                f"the kernel of {name} must be a JAX function or the name of an FFI target, not"
                f" {kernel!r}"
            )
    by_call = named_candidates(module.ir, kernels, ignored)
    return lambda call: [by_call[call]] if call in by_call else []


def place_kernels(
    module: Module, candidates: Candidates, *, platform: str, unlisted: str = NOT_LISTED
) -> PlacedKernels:
    """Replace decompositions by kernels and alternatives. Each call gets the first candidate that
    takes it.

    A JAX function does not take a call for which it raises `UnsupportedCallError`.

    Args:
        module: the program.
        candidates: the kernels for a call.
        platform: the platform of the kernels, such as `cpu` or `cuda`.
        unlisted: the reason for calls without kernels among their candidates.

    Raises:
        BindError: a function fails for a call, or returns other types.
        AttributeConversionError: the FFI cannot decode an attribute of a call.
    """
    reasons: dict[Signature, list[str]] = {}
    remaining: dict[Signature, Iterator[Candidate]] = {}
    for call in distinct(module):
        queue = candidates(call)
        reasons[call] = [unlisted] if all(candidate.is_alternative for candidate in queue) else []
        remaining[call] = _accepting(queue, reasons[call])
    taken: dict[Signature, Candidate] = {}
    placed, asked = module, list(remaining)
    while asked:
        nexts = {call: next(remaining[call], None) for call in asked}
        firsts = {call: first for call, first in nexts.items() if first is not None}
        declined: list[Signature] = []

        def decline(
            call: Signature, reason: str, firsts: Any = firsts, asked_again: Any = declined
        ) -> None:
            reasons[call].append(f"{firsts[call].name}: {reason}")
            asked_again.append(call)

        if firsts:
            placed = put(placed, firsts, platform=platform, declined=decline)
        taken |= {call: first for call, first in firsts.items() if call not in declined}
        asked = declined
    texts = {call: "; ".join(listed) for call, listed in reasons.items() if listed}
    return PlacedKernels(placed, module, taken, texts)


def _accepting(queue: Sequence[Candidate], reasons: list[str]) -> Iterator[Candidate]:
    """Yield the candidates that do not refuse their call. Add the other refusals to `reasons`."""
    for candidate in queue:
        if candidate.refusal is None:
            yield candidate
        else:
            reasons.append(f"{candidate.name}: {candidate.refusal}")


def put(
    module: Module,
    candidates: Mapping[Signature, Candidate],
    *,
    platform: str,
    declined: Callable[[Signature, str], None] | None = None,
) -> Module:
    """A module in which candidates replace the composites of calls."""
    targets = {call: c for call, c in candidates.items() if isinstance(c.kernel, str)}
    bound = {call: c for call, c in candidates.items() if call not in targets}
    # Targets first, so that the code of functions is not searched for calls.
    called = replace_calls(module, targets) if targets else module
    return bind_calls(called, bound, platform=platform, declined=declined) if bound else called


def put_alone(module: Module, call: Signature, kernel: Candidate, platform: str) -> Module:
    """A module that holds only one call of a composite of `module`, with a kernel."""
    return decompose(put(call_module(module, call), {call: kernel}, platform=platform))


def distinct(module: Module) -> list[Signature]:
    """The distinct calls of composites, including calls inside decompositions."""
    return list(dict.fromkeys(call for call, _ in outer_calls(module, ())))


def failing_calls(placed: PlacedKernels, message: str, platform: str) -> tuple[KernelUse, ...]:
    """The calls whose kernels, or a custom call target in them, an XLA message names, or else the
    calls whose kernels fail alone.

    A kernel that the message does not name, and that fails for some values only, is missed.
    """
    uses = {call: use for call, use in placed.by_call.items() if use.kernel is not None}

    def alone(call: Signature) -> Module:
        return put_alone(placed.original, call, placed.taken[call], platform)

    def is_named(call: Signature) -> bool:
        return _mentions(message, str(uses[call].kernel))

    def has_named_target(call: Signature) -> bool:
        targets = find_operations(alone(call).ir.operation, CUSTOM_CALL)
        names = (string_value(target.attributes["call_target_name"]) for target in targets)
        return any(_mentions(message, name) for name in names)

    def fails(call: Signature) -> bool:
        shapes = [static_tensor(type_) for type_ in call.operands]
        operands = [np.ones(*shape) for shape in shapes if shape is not None]
        try:
            compile_module(alone(call), platform=platform)(*operands)
        except StableHLOError:
            return True
        return False

    failing = (tuple(filter(test, uses)) for test in (is_named, has_named_target, fails))
    return tuple(uses[call] for call in next(filter(None, failing), ()))


def _mentions(message: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) is not None


def outer_calls(
    module: Module, taken: Collection[Signature] | None = None
) -> dict[tuple[Signature, str], int]:
    """The numbers of calls of composites, by signature and decomposition.

    Args:
        module: the program.
        taken: calls whose decompositions are not searched. By default no decomposition is searched,
            so that calls inside decompositions are not counted.
    """

    def follows(operation: IrOperation) -> bool:
        if operation.name != COMPOSITE:
            return True
        return taken is not None and not (taken and signature(operation) in taken)

    return call_counts(module.ir, executions(module.ir, follows))
