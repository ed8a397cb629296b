"""from_quantized_types: replace quantized types by integers, and their operations by arithmetic.

%1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<4xf32>
=>
%1 = stablehlo.convert %0 : (tensor<4xi8>) -> tensor<4xi32>     and a subtraction, a multiplication
"""

from .. import bindings
from ..bindings import find_operations
from ..in_place import in_place
from ..insertion import replace_by
from ..ir_types import IrModule

# The first pass broadcasts with CHLO, which jaxlib 0.7.1 expands as if sizes varied.
_PASSES = (
    *("stablehlo-legalize-quant-to-math", "chlo-legalize-to-stablehlo", "canonicalize"),
    *("shape-legalize-to-stablehlo", "stablehlo-canonicalize-dynamism", "canonicalize", "cse"),
)


@in_place
def from_quantized_types(module: IrModule) -> None:
    """Expand operations on quantized types with the official passes.

    Raises:
        VerificationError: the passes have no rule for an operation.
    """
    bindings.run_pipeline(module, f"builtin.module(func.func({','.join(_PASSES)}))")
    for bitcast in find_operations(module.operation, "stablehlo.bitcast_convert"):
        if bitcast.operands[0].type == bitcast.results[0].type:
            replace_by(bitcast, bitcast.operands[0])
