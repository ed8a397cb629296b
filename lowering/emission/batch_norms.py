"""Batch norms become sums and elementwise operations, which a partitioner can divide.

torch_xla lowers layer norm, group norm and instance norm to `batch-norm-training` and
`batch-norm-grad`. XLA's partitioner leaves these whole on each device, and gathers their operands.
The operations that replace them are those of XLA's own expander
(xla/service/batchnorm_expander.cc); sums over a divided dimension are then summed over the devices.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from lowering.emission import hlo_proto
from lowering.emission.builder import renumber
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.passes.gradients import gradients, over_features
from lowering.stablehlo.run import enable_x64, import_jax

_WIDE = ("f32", "f64")


def expand_batch_norms(body: Any, free_id: int) -> list[Any]:
    """Turn the batch norms of a computation (protobuf) in f32 and f64 into calls, in place.

    Args:
        body: the computation.
        free_id: the first of the ids that no computation has.

    Returns:
        The computations that `body` calls now, and their callees.
    """
    shapes = {item.id: item.shape for item in body.instructions}
    made: list[Any] = []
    for item in body.instructions:
        if item.opcode not in _FUNCTIONS:
            continue
        operands = [shapes[number] for number in item.operand_ids]
        name = hlo_proto.ELEMENT_TYPE_NAMES[operands[0].element_type]
        if name not in _WIDE:
            continue
        sizes = tuple(tuple(shape.dimensions) for shape in operands)
        module = hlo_proto.Module.FromString(
            _lowered(item.opcode, item.feature_index, item.epsilon, name, sizes)
        )
        entry = hlo_proto.entry_computation(module)
        free_id = renumber(module.computations, first=free_id)
        made.extend(module.computations)
        item.opcode = "call"
        item.called_computation_ids[:] = [entry.id]
        item.ClearField("epsilon")
        item.ClearField("feature_index")
    return made


@cache
def _lowered(
    opcode: str, feature: int, epsilon: float, type_: str, sizes: tuple[tuple[int, ...], ...]
) -> bytes:
    """A batch norm of operands of `sizes` as a serialized HLO module."""
    jax = import_jax()
    with enable_x64():
        arrays = [jax.ShapeDtypeStruct(dimensions, numpy_dtype(type_)) for dimensions in sizes]
        function = partial(_FUNCTIONS[opcode], feature, epsilon)
        # keep_unused: parameter N is operand N.
        lowered = jax.jit(function, keep_unused=True).lower(*arrays)
        return bytes(lowered.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto())


def _training(axis: int, epsilon: float, x: Any, scale: Any, offset: Any) -> tuple[Any, Any, Any]:
    """The normalized operand, its mean and its biased variance."""
    from jax import lax

    full, total, count = over_features(x, axis)
    mean = total(x) / count
    variance = total(x * x) / count - mean * mean
    normed = (x - full(mean)) * lax.rsqrt(full(variance) + epsilon)
    return normed * full(scale) + full(offset), mean, variance


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "batch-norm-training": _training,
    "batch-norm-grad": gradients,
}
