"""The attributes of a `stablehlo.convolution`, for the passes that change them."""

from dataclasses import dataclass
from typing import Any

from .bindings import attributes, convolution_dimensions
from .ir_types import IrOperation

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
