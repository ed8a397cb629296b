"""The functions that hooks at the backend's dispatch key call: from operands to a computation.

A generated hook looks up a call by everything that its composite depends on. Only calls with a new
key are lowered. The result is a kernel for all calls with this key, so the hot path is one
dictionary lookup and one insertion into the graph.
"""

import logging
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from composites.attribute_types import UnsupportedValueError, VaryingValueError
from composites.errors import (
    CompositesWarning,
    InvalidCallError,
    LoweringError,
    UnsupportedCallError,
    VaryingAttributeError,
)
from composites.functions import find_function
from composites.intermediates import handled
from composites.registry import model
from composites.registry.model import Composite
from composites.registry.operators import overload
from lowering.dispatch.alternatives import (
    Alternatives,
    as_entry,
    bind_forward,
    has_stock_bits,
    lower_alternative,
)
from lowering.dispatch.call import CallForm, CallSpec
from lowering.dispatch.computations import TRANSIENT, NotNowError, computed, remember
from lowering.dispatch.decomposition import lower_function, require_tensors
from lowering.dispatch.operand_lists import ungrouped
from lowering.dispatch.statistics import EntryStatistics, Fallback
from lowering.emission.types import TensorType
from lowering.frontends.protocols import EmittedComposite, Frontend, Kernel, TracedFunction
from lowering.frontends.thread_flag import ThreadFlag

log = logging.getLogger("composites")


@dataclass(slots=True)
class EntryLowering:
    """The computations of one entry, for one set of active entries."""

    form: CallForm
    frontend: Frontend
    stock: Kernel
    """The stock kernel, at the dispatch key where the operator is caught."""
    otherwise: Kernel
    """Takes the calls that the entry does not claim."""
    computations: dict[Hashable, Any]
    """Computations, or Fallbacks, by the key of a call. Other lowerings of the entry may have made
    them."""
    statistics: EntryStatistics
    chosen: tuple[model.Kernel, ...] = ()
    """The alternatives that may take calls."""
    kernels: dict[Hashable, Kernel] = field(default_factory=dict)
    """By a call's key: functions of its tensors that insert the computation into the graph or fall
    back. Operands come first, in the composite's order."""
    _lowering: ThreadFlag = field(default_factory=ThreadFlag)

    @property
    def entry(self) -> Composite:
        return self.form.entry

    @property
    def alternatives(self) -> Alternatives:
        return Alternatives(self.entry, self.chosen, self.statistics)

    def lower(self, spec: CallSpec) -> Kernel:
        """The kernel for calls with a new key; see `kernels`.

        Raises:
            LoweringError: the entry's own decomposition failed, or its results differ in type from
                those of the operator.
        """
        computations, key = self.computations, spec.key
        if self._lowering.active and key not in computations:
            inside = Fallback(self.entry.qualified, "", "", is_missed=False)
            return self._falling_back(inside, spec)
        make = partial(self._new_computation, spec)
        computation = computed(computations, key, self._lowering, make)
        if not isinstance(computation, Fallback):
            kernel = self._inserting(computation, spec)
        else:
            kernel = self._falling_back(computation, spec)
            if key not in computations:  # the next call is tried again
                return kernel
        remember(self.kernels, key, kernel)
        return kernel

    def _inserting(self, computation: Any, spec: CallSpec) -> Kernel:
        """A kernel that inserts a computation, and returns results as the operator does."""
        entry, operator, graph = self.entry, self.form.operator, self.frontend.graph
        statistics, otherwise, kept = self.statistics, self.otherwise, spec.kept()
        # torch requires the form `namespace::name`; the name may contain dots.
        symbol = f"{entry.namespace}::{entry.composite}"
        is_one = len(entry.exposed(operator.results)) == 1 and not operator.returns_list
        insert = graph.insert if is_one else graph.insert_several
        is_plain = len(spec.operands) == len(operator.tensors) and all(
            map(torch.is_tensor, spec.operands)
        )

        def insert_one(*tensors: Any) -> Any:  # the hot path of most calls
            statistics.caught += 1
            return insert(symbol, tensors, computation)[0]

        def insert_any(*tensors: Any) -> Any:
            statistics.caught += 1
            flat = tensors if is_plain else ungrouped(tensors)[0]
            results = insert(symbol, [t for t in flat if t is not None], computation)
            if entry.results:
                results = entry.completed(results, partial(kept.call, otherwise, *tensors))
            if operator.returns_list:
                return list(results)
            return tuple(results) if len(results) > 1 else results[0]

        return insert_one if is_one and is_plain and not entry.results else insert_any

    def _falling_back(self, fallback: Fallback, spec: CallSpec) -> Kernel:
        """A kernel that counts a call of the program and leaves it to `otherwise`."""
        graph, otherwise = self.frontend.graph, spec.kept().bound(self.otherwise)

        def fall_back(*tensors: Any) -> Any:
            # The stock lowering of a call that another entry claims calls operators itself.
            if not graph.is_decomposition:
                fallback.count_call()
            return otherwise(*tensors)

        return fall_back

    def _new_computation(self, spec: CallSpec) -> Any:
        """The composite of a call, or a Fallback."""
        spec = spec.flat()
        unmet = spec.unmet()
        if unmet is not None:
            return self.statistics.fallback(unmet, spec.operands)
        shared = self.frontend.graph.is_shared
        for alternative in self.alternatives.candidates(spec, shared=shared):
            if alternative.forward is None:
                continue
            lowered = self._lowered(spec, alternative)
            if isinstance(lowered, Insertable):
                self.alternatives.take(alternative)
                return lowered.handle
            self.alternatives.decline(alternative, lowered.reason, spec.operands)
        lowered = self._lowered(spec, None)
        if isinstance(lowered, Fallback):
            return lowered
        self.alternatives.take(None)
        if lowered.draws:  # a kernel at the backend has no random state to pass on
            return self.statistics.fallback(
                "its decomposition draws random numbers, which an entry can only do with"
                " `backward: derive`",
                spec.operands,
            )
        return lowered.handle

    def _lowered(self, spec: CallSpec, alternative: model.Kernel | None) -> "Insertable | Fallback":
        """The composite with an alternative, or with the entry's own decomposition."""
        entry, frontend = self.entry, self.frontend
        decompose = partial(self._decomposed, spec)
        if alternative is not None:
            as_stock = has_stock_bits(entry, alternative)
            assert alternative.forward is not None
            entry = as_entry(entry, alternative, alternative.forward)
            function = bind_forward(entry, entry.decomposition, spec, saved=False)
            decompose = partial(
                lower_alternative, entry, frontend, function, spec.operands, as_stock=as_stock
            )
        return lower_composite(
            entry,
            self.statistics,
            entry.composite_name,
            frontend,
            spec.operands,
            spec.attributes,
            decompose,
            None if entry.decomposition.kind == "native" else partial(self._check, entry, spec),
        )

    def _decomposed(self, spec: CallSpec) -> TracedFunction:
        """The entry's own decomposition of a call; see `lower_function`."""
        entry, decomposition, operator = self.entry, self.entry.decomposition, self.form.operator
        target = decomposition.target
        function = self.stock if target is None else find_function(target)

        def results(*values: Any) -> Any:
            returned = spec.call(function, *values)
            if decomposition.kind == "torch":
                require_tensors(returned if isinstance(returned, list | tuple) else (returned,))
            return entry.exposed(returned)

        # A stock kernel above PyTorch's decompositions dispatches again.
        whole = target is not None or operator.implicit_autograd
        return lower_function(entry, self.frontend, results, spec.operands, whole_dispatch=whole)

    def _check(self, entry: Composite, spec: CallSpec, composite: EmittedComposite) -> None:
        """Check that a decomposition returns results of the operator's types."""
        due = _meta_results(spec, self.frontend)
        if due is None:
            return
        expected, actual = tuple(entry.exposed(due)), composite.results
        # A result that the output mask leaves out can have any type.
        if len(expected) == len(actual):
            expected = tuple(e or a for e, a in zip(expected, actual, strict=True))
        if expected != actual:
            raise LoweringError(
                f"{entry.location}: {entry.qualified}: decomposition"
                f" {entry.decomposition} gives {_written(actual)}, but"
                f" {self.form.operator.qualified} gives {_written(expected)}"
            )


@dataclass(frozen=True, slots=True)
class Insertable:
    """A composite that is ready to be inserted."""

    handle: Any
    draws: int
    """The number of advances of the random number generator, whose state is the last operand."""
    results: tuple[TensorType, ...]
    attributes: Mapping[str, str | None]
    """MLIR text by name."""


def lower_composite(
    entry: Composite,
    statistics: EntryStatistics,
    name: str,
    frontend: Frontend,
    operands: Sequence[torch.Tensor | None],
    attributes: Callable[[], Mapping[str, str | None]],
    decompose: Callable[[], TracedFunction],
    check: Callable[[EmittedComposite], None] | None = None,
) -> Insertable | Fallback:
    """The composite for a call, or the reason for its fallback to the stock lowering.

    Args:
        entry: the entry of the composite.
        name: the composite's name in StableHLO.
        operands: tensors in the composite's order; None for an absent operand.
        attributes: returns the attributes as MLIR text.
        decompose: returns the decomposition for these operands.
        check: raises LoweringError if the composite is not correct.

    Raises:
        LoweringError: the entry's own decomposition failed.
        InvalidCallError: the entry's own decomposition rejects the call.
        NotNowError: the call falls back, but the next call may not.
    """
    present: list[TensorType] = []
    try:
        present.extend(frontend.tensors.tensor_type(t) for t in operands if t is not None)
        written = attributes()
        with handled(None):  # names inside a composite are not visible outside
            decomposition = decompose()
        composite = frontend.graph.composite(name, entry.version, written, present, decomposition)
    except (LoweringError, InvalidCallError, KeyboardInterrupt):
        raise
    except VaryingValueError as error:
        raise VaryingAttributeError(
            f"dynamic_shapes: an attribute of {entry.qualified} depends on a size that varies; turn"
            f" that composite off, as in ops=['all', '-{entry.name}'], or keep the dimension fixed"
        ) from error
    except Exception as error:
        declined = isinstance(error, UnsupportedValueError | UnsupportedCallError)
        if entry.decomposition.kind != "native" and not declined:
            raise LoweringError(f"{entry.location}: {entry.qualified}: {error}") from error
        # The stock lowering may fail on placeholders, because it falls back to the CPU or rejects
        # an argument. On the real call, the stock kernel then runs or reports the error.
        first_line = str(error).strip().partition("\n")[0] or type(error).__name__
        reason = str(error) if declined else f"the stock lowering failed: {first_line}"
        if name != entry.composite_name:
            reason = f"its backward: {reason}"
        fallback = statistics.fallback(reason, operands, is_platform_specific=not declined)
        if isinstance(error, TRANSIENT):
            types = ", ".join(map(str, present))
            warnings.warn(
                f"{entry.qualified} takes the stock lowering for this call of {types}:"
                f" {type(error).__name__}: {error}; the next call tries again",
                CompositesWarning,
                stacklevel=2,
            )
            raise NotNowError(fallback) from error
        return fallback
    if check is not None:
        check(composite)
    lost = [type_ for type_ in composite.results if not frontend.tensors.keeps(type_)]
    if lost:
        reason = f"torch_xla gives results of {lost[0]} another dtype"
        return statistics.fallback(reason, operands, is_platform_specific=True)
    log.debug("%s for %s", name, ", ".join(map(str, present)))
    statistics.lowered += 1
    return Insertable(composite.handle, decomposition.draws, composite.results, written)


def _meta_results(spec: CallSpec, frontend: Frontend) -> tuple[TensorType | None, ...] | None:
    """The operator's result types for a call, from its meta kernel; None if this fails.

    The type of a result is None if the call's output mask leaves it out.
    """
    shapes = [None if t is None else torch.empty_like(t, device="meta") for t in spec.operands]
    try:
        results = spec.call(overload(spec.form.operator.qualified), *shapes)
    except Exception:  # no meta kernel, other arguments of it (mm.dtype in 2.9), or a bad call
        return None
    results = results if isinstance(results, list | tuple) else (results,)
    try:
        return tuple(None if r is None else frontend.tensors.tensor_type(r) for r in results)
    except UnsupportedCallError:  # the frontend cannot represent a result
        return None


def _written(types: Sequence[TensorType | None]) -> str:
    return ", ".join(map(str, types)) or "nothing"
