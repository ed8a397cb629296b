"""drop_unused_functions: what no public function reaches goes."""

from composites_testing.passes import load

from lowering.stablehlo import Module, drop_unused_functions


def test_only_unreachable_functions_go() -> None:
    module = load("block")
    unused = "func.func private @unused(%x: tensor<2xf32>) -> tensor<2xf32> {"
    body = " %0 = stablehlo.negate %x : tensor<2xf32> return %0 : tensor<2xf32> }\n"
    longer = Module.parse(module.text.rstrip().removesuffix("}") + unused + body + "}")
    assert "@unused" in longer.text
    assert drop_unused_functions(longer).text == module.text
