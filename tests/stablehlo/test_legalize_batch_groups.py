"""legalize_batch_groups: groups of features with the same numbers, in all layouts."""

import pytest
from composites_testing.passes import changed, same_numbers, stay

from lowering.stablehlo import Module, legalize_batch_groups

# Types of input, kernel and result; dimension numbers; groups.
FORMS = {
    "batches first": (
        "6x3x8x8", "9x3x3x3", "2x9x6x6", "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", 3,
    ),
    "channels last": (
        "6x8x8x3", "3x3x3x9", "2x6x6x9", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", 3,
    ),
    "the gradient of a depthwise kernel": (
        "2x4x8x8", "2x4x8x8", "4x1x3x3", "[f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1]", 4,
    ),
    "one dimension": ("8x5x7", "4x5x2", "2x4x6", "[b, f, 0]x[o, i, 0]->[b, f, 0]", 4),
}  # fmt: skip


def convolution(form: str, attributes: str = "") -> Module:
    *sizes, numbers, groups = FORMS[form]
    x, w, y = (f"tensor<{each}xf32>" for each in sizes)
    pad = "pad = [[1, 1], [1, 1]]" if "depthwise" in form else ""
    return Module.parse(f"""
        func.func @main(%x: {x}, %w: {w}) -> {y} {{
          %0 = func.call @convolution(%x, %w) : ({x}, {w}) -> {y}
          return %0 : {y}
        }}
        func.func private @convolution(%x: {x}, %w: {w}) -> {y} {{
          %0 = stablehlo.convolution(%x, %w) dim_numbers = {numbers}, window = {{{pad}}}
            {{batch_group_count = {groups} : i64, feature_group_count = 1 : i64{attributes}}}
            : ({x}, {w}) -> {y}
          return %0 : {y}
        }}
    """)


@pytest.mark.parametrize("form", FORMS)
def test_the_numbers_stay(form: str) -> None:
    module = convolution(form)
    legal = changed(module, legalize_batch_groups)
    groups = FORMS[form][-1]
    assert f"batch_group_count = {groups}" in module.text
    assert "batch_group_count = 1 " in legal.text
    assert f"feature_group_count = {groups}" in legal.text
    same_numbers(module, legal, tolerance=1e-6)


def test_others_stay() -> None:
    dynamic = convolution("one dimension").text.replace("tensor<8x5x7x", "tensor<?x5x7x")
    sharded = convolution("one dimension", ', mhlo.sharding = "{replicated}"')
    stay(legalize_batch_groups, [sharded, Module.parse(dynamic)])
