"""legalize_batch_groups: turn batch groups of convolutions into feature groups.

    convolution(%x: tensor<6x8x8x3xf32>, %w), batch_group_count = 3
    =>
    convolution(reshape(transpose(reshape %x)) : tensor<2x8x8x9xf32>, %w), feature_group_count = 3

These are gradients of the weights of convolutions in groups, such as depthwise ones. LiteRT 2.3
computes them wrongly, without an error, or does not convert them.
"""

from ..bindings import IrModule, IrOperation, find_operations
from ..convolutions import OPERATION, Convolution
from ..in_place import in_place
from ..insertion import attribute
from ..sharding_attributes import is_sharded
from .expansion import computed


@in_place
def legalize_batch_groups(module: IrModule) -> None:
    """Change every convolution with several groups of batches. Convolutions with dynamic shapes or
    shardings stay."""
    for convolution in find_operations(module.operation, OPERATION):
        parsed = Convolution.parse(convolution)
        is_static = convolution.operands[0].type.has_static_shape
        if is_static and parsed.batch_groups > 1 and not is_sharded(convolution):
            _regroup(convolution, parsed)


def _regroup(operation: IrOperation, parsed: Convolution) -> None:
    operand, groups = operation.operands[0], parsed.batch_groups
    batch, feature = parsed.numbers.input_batch_dimension, parsed.numbers.input_feature_dimension
    sizes = [*operand.type.shape]
    split = [*sizes[:batch], groups, sizes[batch] // groups, *sizes[batch + 1 :]]
    # Of the split tensor: the groups stand before the batches, and go before the features.
    rest = [dim for dim in range(len(split)) if dim != batch]
    features = feature if feature < batch else feature + 1
    place = rest.index(features)
    order = [*rest[:place], batch, *rest[place:]]
    sizes[batch], sizes[feature] = sizes[batch] // groups, sizes[feature] * groups
    (operation.operands[0],) = computed(
        operation, lambda x: x.reshape(split).transpose(order).reshape(sizes), operand
    )
    operation.attributes["batch_group_count"] = attribute(operation, "1 : i64")
    operation.attributes["feature_group_count"] = attribute(operation, f"{groups} : i64")
