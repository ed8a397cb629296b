"""Private interfaces of JAX, as found in jax 0.7.1, 0.10.2 and 0.12.0.

`jax.lax.composite` is public, but it traces its function again for each call, so that a program has
one decomposition for each. The primitive behind it takes a traced function that calls can share.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src.interpreters.mlir import register_attribute_handler
from jax._src.lax.lax import _composite_lowering, composite_p
from jax.interpreters import mlir

# The parameter that holds the traced function.
_FUNCTION = "jaxpr" if "jaxpr" in inspect.signature(_composite_lowering).parameters else "call_jaxpr"


def parse_attributes_of(kind: type, text_of: Callable[[Any], str]) -> None:
    """Let values of a class be attributes, which MLIR's parser reads from their text."""

    def parsed(value: Any) -> Any:
        return mlir.ir.Attribute.parse(text_of(value))

    register_attribute_handler(kind, parsed)


def bind_composite(
    name: str,
    version: int,
    attributes: Sequence[tuple[str, Any]],
    function: Any,
    operands: Sequence[Any],
) -> list[Any]:
    """Put a composite into the program that is traced.

    Args:
        attributes: names and values, which `parse_attributes_of` knows.
        function: the decomposition as a closed jaxpr without constants. Composites whose function
            is the same object share one in the module.
        operands: arrays of the types that the function takes.
    """
    leaf = jax.tree.structure(0)
    flat = tuple((key, (value,), leaf) for key, value in attributes)
    found: list[Any] = composite_p.bind(
        *operands, name=name, version=version, attributes=flat, **{_FUNCTION: function}
    )
    return found


def run_equation(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """The results of one operation of a traced function, for other operands."""
    parameters = equation.primitive.get_bind_params(equation.params)
    functions: Sequence[Any] = ()
    if isinstance(parameters, tuple):  # before jax 0.10
        functions, parameters = parameters
    results = equation.primitive.bind(*functions, *operands, **parameters)
    return list(results) if equation.primitive.multiple_results else [results]


def has_symbols(context: Any) -> bool:
    """Whether a module that is lowered has symbolic sizes, as `jax.export` makes them."""
    return bool(context.module_context.shape_poly_state.dim_vars)
