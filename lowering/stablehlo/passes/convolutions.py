"""Convolutions in the forms that LiteRT computes correctly."""

from dataclasses import dataclass
from typing import Any

from composites.lazy_modules import lax

from ..bindings import attributes, convolution_dimensions
from ..in_place import rewrites
from ..insertion import attribute
from ..ir_types import IrOperation
from .expansion import computed

OPERATION = "stablehlo.convolution"


@dataclass(frozen=True)
class Convolution:
    """The attributes of a convolution. Lists have a number for each spatial dimension."""

    numbers: Any
    """The dimension numbers."""
    kernel: list[int]
    strides: list[int]
    padding: list[tuple[int, int]]
    lhs_dilation: list[int]
    rhs_dilation: list[int]
    batch_groups: int
    feature_groups: int

    @classmethod
    def parse(cls, operation: IrOperation) -> "Convolution":
        numbers, named = convolution_dimensions(operation), attributes(operation)
        rank = len(numbers.input_spatial_dimensions)
        kernel = operation.operands[1].type.shape
        padding = [int(size) for size in named.get("padding", [0] * 2 * rank)]
        return cls(
            numbers,
            [kernel[dim] for dim in numbers.kernel_spatial_dimensions],
            [int(size) for size in named.get("window_strides", [1] * rank)],
            list(zip(padding[::2], padding[1::2], strict=True)),
            [int(size) for size in named.get("lhs_dilation", [1] * rank)],
            [int(size) for size in named.get("rhs_dilation", [1] * rank)],
            named["batch_group_count"].value,
            named["feature_group_count"].value,
        )

    @property
    def is_transposed(self) -> bool:
        """True if the operation is the transpose of a convolution without padding, in one group."""
        return (
            {*self.strides, *self.rhs_dilation, self.feature_groups, self.batch_groups} == {1}
            and len({*self.lhs_dilation}) == 1
            and self.padding == [(size - 1, size - 1) for size in self.kernel]
        )


@rewrites(OPERATION)
def legalize_batch_groups(operation: IrOperation) -> None:
    """Turn batch groups of convolutions into feature groups.

        convolution(%x: tensor<6x8x8x3xf32>, %w), batch_group_count = 3
        =>
        convolution(%y: tensor<2x8x8x9xf32>, %w), feature_group_count = 3
        with %y = reshape(transpose(reshape %x))

    Such operations are gradients of the weights of grouped convolutions, such as depthwise
    convolutions. LiteRT 2.3 computes wrong results, without an error, or does not convert them.

    Convolutions with dynamic shapes or shardings stay.
    """
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


@rewrites(OPERATION)
def pad_dilated_inputs(operation: IrOperation) -> None:
    """Pad the inputs of convolutions with dilated inputs.

        convolution(%x, %w), pad = [[1, 2]], lhs_dilate = [2]
        =>
        convolution(pad %x, low = [1], high = [2], interior = [1], %w)

    Such operations are gradients of convolutions with strides. LiteRT 2.3 computes wrong results,
    without an error, if the padding of both sides differs, and refuses most other padding. It
    supports full transposed convolutions, which are padded on both sides by the kernel's size less
    one. They stay. Elements are the sums of the same products.

    Pad the inputs of convolutions with `lhs_dilation`. Full transposed convolutions stay, and so
    do convolutions with dynamic shapes or shardings.
    """
    parsed = Convolution.parse(operation)
    is_dilated = any(dilation > 1 for dilation in parsed.lhs_dilation)
    if not is_dilated or parsed.is_transposed or not operation.operands[0].type.has_static_shape:
        return

    def padded(x: Any) -> Any:
        around = [(0, 0, 0)] * x.ndim
        for dim, (low, high), dilation in zip(
            parsed.numbers.input_spatial_dimensions,
            parsed.padding,
            parsed.lhs_dilation,
            strict=True,
        ):
            around[dim] = (low, high, dilation - 1)
        return lax.pad(x, x.dtype.type(0), around)

    (operation.operands[0],) = computed(operation, padded, operation.operands[0])
    spatial = len(parsed.padding)
    del operation.attributes["lhs_dilation"]
    if "padding" in attributes(operation):
        operation.attributes["padding"] = attribute(
            operation, f"dense<0> : tensor<{spatial}x2xi64>"
        )
