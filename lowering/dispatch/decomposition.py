"""An entry's decomposition, traced: the stock lowering, a PyTorch function or a JAX function."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from composites.errors import InvalidCallError, LoweringError, UnsupportedCallError
from composites.functions import find_function
from composites.registry.model import Composite
from composites.user_code import described
from lowering import interrupts
from lowering.dispatch.call import CallSpec
from lowering.dispatch.guarded_self import UnlistedReadError
from lowering.frontends.protocols import (
    Frontend,
    GraphRunError,
    TracedFunction,
    WrittenOperandError,
)


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
        raise LoweringError(f"{entry.location}: {entry.qualified} {error}") from error
    except WrittenOperandError as error:
        subject = entry.decomposition.target or "function"
        raise LoweringError(f"{entry.location}: {entry.qualified}: {subject} {error}") from error
    except GraphRunError as error:
        raise LoweringError(f"{entry.location}: {entry.qualified}: {error}") from error
    except (Exception, SystemExit) as error:
        if entry.decomposition.target is None:
            raise
        raise _failed(entry, frontend, operands, error) from error


def require_tensors(results: Sequence[Any]) -> None:
    """Check the results of a function that an entry names.

    Raises:
        TypeError: a result is not a tensor.
    """
    for result in results:
        if not isinstance(result, torch.Tensor):
            kind = "None" if result is None else type(result).__name__
            raise TypeError(f"it returns {kind}; return a tensor, or a tuple of tensors")


def _failed(
    entry: Composite, frontend: Frontend, operands: Sequence[Any], error: BaseException
) -> LoweringError:
    types = ["None" if t is None else str(frontend.tensors.tensor_type(t)) for t in operands]
    return LoweringError(
        f"{entry.location}: {entry.qualified}: decomposition {entry.decomposition.target} failed"
        f" for {', '.join(types)}: {described(error)}"
    )
