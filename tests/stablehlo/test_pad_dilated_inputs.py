"""pad_dilated_inputs and its numbers, for strides, layouts and groups."""

import pytest
from composites_testing.passes import changed, same_numbers, stay

from lowering.stablehlo import Module, pad_dilated_inputs

LAYOUTS = {
    "images first": ("2x4x5x5", "6x4x3x3", "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]"),
    "channels last": ("2x5x5x4", "3x3x4x6", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"),
}


def convolution(
    pad: str,
    *,
    layout: str = "images first",
    dilation: str = "2, 2",
    result: tuple[int, int] = (10, 10),
    element: str = "f32",
    attributes: str = "",
) -> Module:
    """A decomposition of a composite, as torch_xla's gradients are."""
    x, w, numbers = LAYOUTS[layout]
    rows, columns = result
    y = f"2x6x{rows}x{columns}" if layout == "images first" else f"2x{rows}x{columns}x6"
    x, w, y = (f"tensor<{sizes}x{element}>" for sizes in (x, w, y))
    return Module.parse(f"""
        func.func @main(%x: {x}, %w: {w}) -> {y} {{
          %0 = stablehlo.composite "acme.gradient" %x, %w {{decomposition = @gradient}}
            : ({x}, {w}) -> {y}
          return %0 : {y}
        }}
        func.func private @gradient(%x: {x}, %w: {w}) -> {y} {{
          %0 = stablehlo.convolution(%x, %w) dim_numbers = {numbers},
            window = {{stride = [1, 1], pad = {pad}, lhs_dilate = [{dilation}]}}
            {{batch_group_count = 1 : i64, feature_group_count = 1 : i64{attributes}}}
            : ({x}, {w}) -> {y}
          return %0 : {y}
        }}
    """)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("pad", "dilation", "result"),
    [
        ("[[1, 2], [1, 2]]", "2, 2", (10, 10)),
        ("[[2, 1], [1, 2]]", "2, 2", (10, 10)),
        ("[[0, 0], [1, 1]]", "2, 2", (7, 9)),
        ("[[-1, 0], [0, -2]]", "2, 3", (6, 9)),
        ("[[1, 0], [3, 4]]", "1, 2", (4, 14)),
    ],
)
def test_the_numbers_stay(pad: str, dilation: str, result: tuple[int, int], layout: str) -> None:
    module = convolution(pad, layout=layout, dilation=dilation, result=result)
    padded = changed(module, pad_dilated_inputs)
    assert "lhs_dilate" in module.text
    assert "lhs_dilate" not in padded.text
    assert "stablehlo.pad" in padded.text
    same_numbers(module, padded, tolerance=1e-6)


def test_others_stay() -> None:
    others = [
        convolution("[[1, 1], [1, 1]]", dilation="1, 1", result=(5, 5)),  # not spread
        convolution("[[2, 2], [2, 2]]", result=(11, 11)),  # a transposed convolution
        convolution("[[1, 2], [1, 2]]", attributes=', mhlo.sharding = "{replicated}"'),
    ]
    stay(pad_dilated_inputs, others)


def test_integers_are_padded_too() -> None:
    module = convolution("[[1, 2], [1, 2]]", element="i32")
    same_numbers(module, pad_dilated_inputs(module))
