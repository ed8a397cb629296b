"""JAX functions as decompositions, lowered to HLO for the shapes and dtypes of a call.

Tested with jax 0.7.1, 0.10.2 and 0.12.0.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from composites.intermediates import Handler
from lowering.emission.types import DecompositionHlo, TensorType
from lowering.frontends.jax.composite_call import on_selected, trace
from lowering.frontends.jax.internals import sized
from lowering.stablehlo import Module, bindings
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.run import enable_x64
from lowering.stablehlo.symbols import functions, keep_arguments


def pull_gradients(
    function: Callable[..., Any],
    operands: Sequence[Any],
    needed: Sequence[bool],
    grads: Sequence[Any],
) -> list[Any]:
    """Pull gradients of a function's results back to its operands, with `jax.vjp`.

    Args:
        operands: arrays; None for an absent operand.
        needed: for each operand, True if its gradient is requested. It is then an array of floats.
        grads: for each result, its gradient, or None if nothing depends on the result.

    Returns:
        The requested gradients. A gradient is zero if the results do not depend on its operand.
    """
    selected = on_selected(_flat(function), operands, needed)
    results, pull = jax.vjp(selected, *compress(operands, needed))
    # PyTorch's gradients are the conjugates of JAX's. For real numbers, they are equal.
    gradients = pull([_cotangent(r, g) for r, g in zip(results, grads, strict=True)])
    return [jnp.conj(gradient) for gradient in gradients]


def _flat(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """A function that returns the results of `function`, in any nesting, as a list of arrays."""
    return lambda *arrays: [jnp.asarray(x) for x in jax.tree.leaves(function(*arrays))]


def replacement(values: Mapping[str, Any]) -> Handler:
    """A handler of named values, for `composites.intermediates.handled`. For names in `values`, a
    decomposition continues with these arrays, and gradients go to the values that it computed
    itself."""

    def replace(computed: Any, name: str) -> Any:
        return _replaced(computed, values[name]) if name in values else computed

    return replace


def _replacement(computed: Any, replacement: Any) -> Any:
    return replacement


def _tangent_of_computed(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    return primals[1], tangents[0]


_replaced = jax.custom_jvp(_replacement)
_replaced.defjvp(_tangent_of_computed)


def _cotangent(result: Any, grad: Any) -> Any:
    if not jnp.issubdtype(result.dtype, jnp.inexact):
        return np.zeros(result.shape, jax.dtypes.float0)  # integers have no gradient
    if grad is None:
        return jnp.zeros(result.shape, result.dtype)
    return jnp.conj(grad).astype(result.dtype)


def blank(type_: TensorType) -> Any:
    """An array of a type, for an operand whose values do not matter."""
    return jnp.zeros(type_.shape, numpy_dtype(type_.element_type))


def _described(operands: Sequence[TensorType | None]) -> list[Any]:
    return [
        None if t is None else jax.ShapeDtypeStruct(t.shape, numpy_dtype(t.element_type))
        for t in operands
    ]


def lower_to_hlo(
    function: Callable[..., Any], operands: Sequence[TensorType | None]
) -> DecompositionHlo:
    """Lower a function of arrays to HLO, see `Tracing.trace_arrays`."""
    with enable_x64():
        # keep_unused: parameter N is operand N even if the function does not read it.
        lowered = jax.jit(function, keep_unused=True).lower(*_described(operands))
        computation = lowered.compiler_ir(dialect="hlo")
    present = sum(operand is not None for operand in operands)
    return DecompositionHlo(computation.as_serialized_hlo_module_proto(), tuple(range(present)))


def lower_to_stablehlo(
    function: Callable[..., Any], operands: Sequence[TensorType], *, symbolic: bool = False
) -> Module:
    """Lower a function of arrays to StableHLO, without JAX's attributes for its own calls.
    Parameter N is operand N.

    Args:
        symbolic: allow sizes that are symbols, which become `?` in the module.

    Raises:
        UnsupportedCallError: a symbol is not the size of a dimension of an operand.
    """
    types = _described(operands)
    with enable_x64():
        lowered = jax.jit(sized(function, types) if symbolic else function, keep_unused=True)
        module = lowered.lower(*types).compiler_ir(dialect="stablehlo")
    copy = bindings.copy_into(bindings.new_context(), module)
    for key in ("mhlo.num_partitions", "mhlo.num_replicas"):
        del copy.operation.attributes[key]
    main = functions(copy)["main"]
    for key in ("arg_attrs", "res_attrs", "sym_visibility"):
        if key in main.attributes:
            del main.attributes[key]
    # JAX puts symbolic sizes before the operands, and nothing reads them.
    count = len(main.attributes["function_type"].value.inputs)
    keep_arguments(main, range(count - len(operands), count))
    return Module(copy)


def lower_to_jaxpr(function: Callable[..., Any], operands: Sequence[TensorType | None]) -> Any:
    """Trace a function of arrays to a closed jaxpr of the present operands, see
    `Tracing.trace_arrays`."""
    described = _described(operands)
    present = [type_ is not None for type_ in described]
    run_present = on_selected(_flat(function), described, present)
    with enable_x64():
        return trace(run_present, list(compress(described, present)), holds_arrays=True)
