"""share_decompositions: what is merged and what is not."""

from composites_testing.passes import load, same_numbers

from lowering.stablehlo import (
    Module,
    flatten_calls,
    share_decompositions,
)


def test_equal_calls_share_one_function() -> None:
    before = flatten_calls(load("wrapped_gelu"))
    after = share_decompositions(before)
    # Two shapes, hence two functions.
    assert before.text.count("func.func private") == 3
    assert after.text.count("func.func private") == 2
    same_numbers(before, after)


def test_functions_that_differ_only_in_what_they_share_are_merged_too() -> None:
    before = load("nested_duplicates")
    after = share_decompositions(before)
    # outer, inner, and the one that serves acme.other.
    assert after.text.count("func.func private") == 3
    same_numbers(before, after)


def test_other_composites_and_attributes_keep_a_function_each() -> None:
    def composite(result: str, name: str, attributes: str, function: str) -> str:
        return (
            f'{result} = stablehlo.composite "{name}" %x {{composite_attributes = '
            f"{{{attributes}}}, decomposition = @{function}}} : (tensor<2xf32>) -> tensor<2xf32>\n"
        )

    functions = "".join(
        f"func.func private @{name}(%x: tensor<2xf32>) -> tensor<2xf32> {{\n"
        f"  %0 = stablehlo.{operation} %x : tensor<2xf32>\n  return %0 : tensor<2xf32>\n}}\n"
        for name, operation in (("a", "tanh"), ("b", "tanh"), ("c", "tanh"), ("d", "negate"))
    )
    module = Module.parse(
        "func.func @main(%x: tensor<2xf32>) {\n"
        + composite("%0", "acme.f", "k = 1 : i64", "a")
        + composite("%1", "acme.f", "k = 2 : i64", "b")
        + composite("%2", "acme.g", "k = 1 : i64", "c")
        + composite("%3", "acme.f", "k = 1 : i64", "d")
        + "return\n}\n"
        + functions
    )
    assert share_decompositions(module).text == module.text


def test_public_and_called_functions_are_left_alone() -> None:
    text = load("nested_duplicates").text.replace(
        "func.func private @inner.8", "func.func @inner.8"
    )
    after = share_decompositions(Module.parse(text)).text
    assert "func.func @inner.8" in after
