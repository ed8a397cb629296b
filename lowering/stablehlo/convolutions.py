"""What a `stablehlo.convolution` says, for the passes that change some."""

from dataclasses import dataclass

from .bindings import ConvolutionDimensions, IrOperation, attributes, convolution_dimensions

OPERATION = "stablehlo.convolution"


@dataclass(frozen=True)
class Convolution:
    """Lists have a number for each spatial dimension."""

    numbers: ConvolutionDimensions
    padding: list[tuple[int, int]]
    lhs_dilation: list[int]
    batch_groups: int
    feature_groups: int

    @classmethod
    def of(cls, operation: IrOperation) -> "Convolution":
        numbers, given = convolution_dimensions(operation), attributes(operation)
        rank = len(numbers.input_spatial)
        padding = [int(size) for size in given.get("padding", [0] * 2 * rank)]
        return cls(
            numbers,
            list(zip(padding[::2], padding[1::2], strict=True)),
            [int(size) for size in given.get("lhs_dilation", [1] * rank)],
            given["batch_group_count"].value,
            given["feature_group_count"].value,
        )
