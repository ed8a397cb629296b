"""expand_batch_norm_grad: replace batch norm's gradient with elementary operations.

    stablehlo.batch_norm_grad  =>  subtract, multiply, reduce, rsqrt, ..

IREE 3.13 supports `batch_norm_training` and `batch_norm_inference` but has no rule for this
operation. torch_xla 2.9 also produces it for layer norm.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from composites.lazy_modules import lax

from ..bindings import attributes
from ..errors import UnsupportedOperationError
from ..in_place import rewrites
from ..ir_types import IrOperation
from .expansion import expand

OPERATION = "stablehlo.batch_norm_grad"


@rewrites(OPERATION, sharded=True)
def expand_batch_norm_grad(call: IrOperation) -> None:
    """Expand every `stablehlo.batch_norm_grad`.

    Raises:
      UnsupportedOperationError: an operation has a dynamic shape.
    """
    full = call.operands[0].type
    if not full.has_static_shape:
        raise UnsupportedOperationError(f"{OPERATION} of {full}: refine its shape first")
    named = attributes(call)
    axis, epsilon = named["feature_index"].value, named["epsilon"].value
    expand(call, partial(gradients, axis, epsilon))


def over_features(x: Any, axis: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any], float]:
    """A function that broadcasts one value per feature to the shape of `x`, a function that sums
    over the other dimensions, and the number of values that are summed.

    Args:
        axis: the dimension of the features.
    """
    summed = [dim for dim in range(x.ndim) if dim != axis]
    count = float(prod(x.shape[dim] for dim in summed))

    def full(row: Any) -> Any:
        return lax.broadcast_in_dim(row, x.shape, (axis,))

    def total(array: Any) -> Any:
        return lax.reduce(array, array.dtype.type(0), lax.add, summed)

    return full, total, count


def gradients(
    axis: int, epsilon: float, x: Any, scale: Any, mean: Any, variance: Any, grad: Any
) -> tuple[Any, Any, Any]:
    """The gradients of operand, scale and offset, expanded as in XLA."""
    full, total, count = over_features(x, axis)
    centered = x - full(mean)
    shifted = variance + epsilon
    inverse = lax.rsqrt(shifted)
    products, offset_gradient = total(grad * centered), total(grad)
    factor = scale * inverse / count
    scaled = grad * count - full(offset_gradient) - centered * full(products / shifted)
    return scaled * full(factor), products * inverse, offset_gradient
