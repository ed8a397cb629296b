"""An entry's decomposition, traced, as a composite: the stock lowering, a PyTorch function or a JAX
function."""

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from composites.registry.model import Composite
from composites.user_code import described
from lowering import interrupts
from lowering.dispatch.call import CallSpec
from lowering.dispatch.computations import TRANSIENT, NotNowError
from lowering.dispatch.definition import ActiveEntry, Operands
from lowering.dispatch.guarded_self import UnlistedReadError
from lowering.dispatch.statistics import Fallback
from lowering.emission.types import TensorType
from lowering.frontends.protocols import (
    EmittedComposite,
    Frontend,
    GraphRunError,
    TracedFunction,
    WrittenOperandError,
)

log = logging.getLogger("composites")


def jax_function(entry: Composite, spec: CallSpec) -> Callable[..., Any]:
    """An entry's JAX decomposition of one call, as a function of arrays."""
    assert entry.decomposition.target is not None
    function = find_function(entry.decomposition.target)
    return lambda *arrays: entry.exposed(spec.call(function, *arrays))


def jax_frontend() -> Any:
    """`lowering.frontends.jax.functions`, which imports JAX."""
    from lowering.frontends.jax import functions

    return functions


def keeps_stock_bits(entry: Composite) -> bool:
    """Return whether the decomposition must have the same bits as the replaced operations.

    This holds for the stock lowering, and for a Python function that is also caught in training.
    """
    return entry.decomposition.target is None or (bool(entry.functions) and entry.derives)


def lower_function(
    entry: Composite,
    frontend: Frontend,
    function: Callable[..., Any],
    operands: Sequence[Any],
    *,
    whole_dispatch: bool = True,
    autocast: Any = None,
    as_stock: bool = False,
) -> TracedFunction:
    """Trace a function of the operands that runs an entry's decomposition: a function of arrays if
    the decomposition is written in JAX, otherwise of tensors.

    Args:
        whole_dispatch, autocast: see `Tracing.trace`.
        as_stock: require the stock lowering's bits even if `keeps_stock_bits(entry)` is false.

    Raises:
        LoweringError: the entry's own function failed. Errors of the stock lowering are not
            wrapped.
        UnsupportedCallError: the entry's own function leaves the call to the stock lowering.
        InvalidCallError: the entry's own function rejects the call.
    """
    where, target = f"{entry.location}: {entry.qualified}", entry.decomposition.target
    try:
        if entry.decomposition.kind == "jax":
            types = [None if t is None else frontend.tensors.tensor_type(t) for t in operands]
            with interrupts.allowed():
                return frontend.tracing.trace_arrays(function, types)
        return frontend.tracing.trace(
            function,
            operands,
            whole_dispatch=whole_dispatch,
            autocast=autocast,
            as_stock=as_stock or keeps_stock_bits(entry),
        )
    except (UnsupportedCallError, InvalidCallError, LoweringError):
        raise
    except UnlistedReadError as error:
        raise LoweringError(f"{where} {error}") from error
    except WrittenOperandError as error:
        raise LoweringError(f"{where}: {target or 'function'} {error}") from error
    except GraphRunError as error:
        raise LoweringError(f"{where}: {error}") from error
    except (Exception, SystemExit) as error:
        if target is None:
            raise
        types = [None if t is None else frontend.tensors.tensor_type(t) for t in operands]
        raise LoweringError(
            f"{where}: decomposition {target} failed for {', '.join(map(str, types))}:"
            f" {described(error)}"
        ) from error


@dataclass(frozen=True, slots=True)
class Insertable:
    """A composite that is ready to be inserted."""

    handle: Any
    draws: int
    """The number of advances of the random number generator."""
    takes_state: bool
    """True if the generator's state is the last operand."""
    results: tuple[TensorType, ...]
    attributes: Mapping[str, str | None]
    """MLIR text by name."""


def lower_composite(
    definition: ActiveEntry,
    entry: Composite,
    name: str,
    operands: Operands,
    attributes: Callable[[], Mapping[str, str | None]],
    decompose: Callable[[], TracedFunction],
    check: Callable[[Composite, EmittedComposite], None] | None = None,
) -> Insertable | Fallback:
    """The composite for a call, or the reason for its fallback to the stock lowering.

    Args:
        entry: the entry with the decomposition that is lowered.
        name: the composite's name in StableHLO.
        operands: tensors in the composite's order; None for an absent operand.
        attributes: returns the attributes as MLIR text.
        decompose: returns the decomposition for these operands.
        check: takes the entry too, and raises LoweringError if the composite is not correct.

    Raises:
        LoweringError: the entry's own decomposition failed.
        InvalidCallError: the entry's own decomposition rejects the call.
        NotNowError: the call falls back, but the next call may not.
    """
    frontend, statistics = definition.frontend, definition.statistics
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
        check(entry, composite)
    lost = [type_ for type_ in composite.results if type_.element_type in frontend.lost_types]
    if lost:
        reason = f"torch_xla gives results of {lost[0]} another dtype"
        return statistics.fallback(reason, operands, is_platform_specific=True)
    log.debug("%s for %s", name, ", ".join(map(str, present)))
    statistics.lowered += 1
    draws, takes_state = decomposition.draws, decomposition.takes_state
    return Insertable(composite.handle, draws, takes_state, composite.results, written)


def require_tensors(results: Sequence[Any]) -> None:
    """Check the results of a function that an entry names.

    Raises:
        TypeError: a result is not a tensor.
    """
    for result in results:
        if not isinstance(result, torch.Tensor):
            kind = "None" if result is None else type(result).__name__
            raise TypeError(f"it returns {kind}; return a tensor, or a tuple of tensors")
