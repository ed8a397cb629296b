"""legalize_batch_groups: turn batch groups of convolutions into feature groups.

    convolution(%x: tensor<6x8x8x3xf32>, %w), batch_group_count = 3
    =>
    convolution(reshape(transpose(reshape %x)) : tensor<2x8x8x9xf32>, %w), feature_group_count = 3

Such operations are gradients of the weights of grouped convolutions, such as depthwise
convolutions. LiteRT 2.3 computes wrong results, without an error, or does not convert them.
"""

from ..convolutions import OPERATION, Convolution
from ..in_place import rewrites
from ..insertion import attribute
from ..ir_types import IrOperation
from .expansion import computed


@rewrites(OPERATION)
def legalize_batch_groups(operation: IrOperation) -> None:
    """Change every convolution with several batch groups. Convolutions with dynamic shapes or
    shardings stay."""
    parsed = Convolution.parse(operation)
    operand, groups = operation.operands[0], parsed.batch_groups
    if groups == 1 or not operand.type.has_static_shape:
        return
    batch, feature = parsed.numbers.input_batch_dimension, parsed.numbers.input_feature_dimension
    sizes = [*operand.type.shape]
    split = [*sizes[:batch], groups, sizes[batch] // groups, *sizes[batch + 1 :]]
    # In the split tensor, the groups move from the batches to the front of the features.
    remaining = [dim for dim in range(len(split)) if dim != batch]
    features = feature if feature < batch else feature + 1
    position = remaining.index(features)
    order = [*remaining[:position], batch, *remaining[position:]]
    sizes[batch], sizes[feature] = sizes[batch] // groups, sizes[feature] * groups
    (operation.operands[0],) = computed(
        operation, lambda x: x.reshape(split).transpose(order).reshape(sizes), operand
    )
    operation.attributes["batch_group_count"] = attribute(operation, "1 : i64")
    operation.attributes["feature_group_count"] = attribute(operation, f"{groups} : i64")
