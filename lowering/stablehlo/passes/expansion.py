"""Operations as JAX functions of their operands: a step that several passes share.

JAX lowers such a function to StableHLO, so that a pass is as short as its formula.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from ..bindings import parse_text
from ..dtypes import shape_and_element_type, static_tensor
from ..in_place import InPlacePass, rewrites
from ..insertion import inlined, replace_by
from ..ir_types import IrOperation, IrValue
from ..run import enable_x64, import_jax
from ..symbols import functions
from .decompositions import flatten_calls
from .fold_data_movement import fold_data_movement


def computed(before: IrOperation, function: Callable[..., Any], *values: IrValue) -> list[IrValue]:
    """The results of a function of JAX arrays for values of static shapes.

    Args:
        before: the operation in front of which the results are computed.

    Raises:
        MissingJaxError: jax is not installed.
    """
    jax = import_jax()
    types = [static_tensor(str(value.type)) for value in values]
    with enable_x64():
        arrays = [jax.ShapeDtypeStruct(*type_) for type_ in types if type_ is not None]
        # keep_unused: argument N of the function is value N.
        lowered = (
            jax.jit(function, keep_unused=True).trace(*arrays).lower(lowering_platforms=("cpu",))
        )
    module = parse_text(str(lowered.compiler_ir("stablehlo")), "<jax>", before.context)
    flatten_calls.change(module)
    fold_data_movement.change(module)
    return inlined(before, functions(module)["main"], values)


def expand(operation: IrOperation, function: Callable[..., Any]) -> None:
    """Replace an operation by a function of JAX arrays, applied to its operands."""
    replace_by(operation, *computed(operation, function, *operation.operands))


def expands(
    *names: str,
) -> Callable[[Callable[[IrOperation], Callable[..., Any] | None]], InPlacePass[[]]]:
    """A decorator that makes a pass of a function. The function maps an operation to the function
    of JAX arrays that replaces it, or to None to keep the operation. Operations with dynamic
    shapes, quantized types or shardings stay."""

    def decorated(choose: Callable[[IrOperation], Callable[..., Any] | None]) -> InPlacePass[[]]:
        def rewrite(operation: IrOperation) -> None:
            values = (*operation.operands, *operation.results)
            if all(shape_and_element_type(str(value.type)) for value in values):
                function = choose(operation)
                if function is not None:
                    expand(operation, function)

        return rewrites(*names)(update_wrapper(rewrite, choose))

    return decorated
