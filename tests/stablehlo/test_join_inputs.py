"""join_inputs: arguments that are computed from another one."""

import numpy as np

from lowering.stablehlo import Linear, Module, compile_module, join_inputs

MODULE = """
func.func @main(%a: tensor<i64>, %x: tensor<f32>, %b: tensor<i64>, %c: tensor<i64>)
    -> (tensor<i64>, tensor<f32>, tensor<i64>, tensor<i64>) {
  return %a, %x, %b, %c : tensor<i64>, tensor<f32>, tensor<i64>, tensor<i64>
}
"""


def test_arguments_are_functions_of_one() -> None:
    """One of the arguments can be the input itself. Numbers wrap."""
    joined = {0: Linear(1, 0), 2: Linear(3, 2), 3: Linear(-(2**62), 2**63 - 1)}
    result = join_inputs(Module.parse(MODULE), 2, joined)
    result.verify()
    values = compile_module(result)(np.float32(0.5), np.int64(5))
    assert [value.item() for value in values] == [5, 0.5, 17, 2**62 - 1]
