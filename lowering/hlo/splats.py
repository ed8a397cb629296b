"""fold_splats: a tensor filled with a constant as one constant.

    %0 = stablehlo.constant dense<0.5> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = []      =>  %0 = stablehlo.constant dense<0.5>
           : (tensor<f32>) -> tensor<4x8xf32>                     : tensor<4x8xf32>

HLO would write out every element of such a constant, so the constant is made after the conversion.
"""

from itertools import takewhile

from lowering.stablehlo.bindings import building, ir
from lowering.stablehlo.insertion import inserted
from lowering.stablehlo.ir_types import IrModule, IrOperation, IrValue
from lowering.stablehlo.symbols import body, functions

_CONSTANT, _BROADCAST = "stablehlo.constant", "stablehlo.broadcast_in_dim"


def fold_splats(module: IrModule) -> None:
    """Fold broadcasts of the constants at the head of each function, where `canonicalize` puts
    them."""
    with building(module.context):
        for function in functions(module).values():
            block = body(function)
            if block is not None:
                operations = (operation.operation for operation in block.operations)
                _fold(list(takewhile(lambda operation: operation.name == _CONSTANT, operations)))


def _fold(constants: list[IrOperation]) -> None:
    for constant in constants:
        (scalar,) = constant.results
        if scalar.type.rank != 0 or "complex" in str(scalar.type):  # bindings lack complex splats
            continue
        broadcasts = [use.owner.operation for use in scalar.uses]
        filled: dict[str, IrValue] = {}
        for broadcast in broadcasts:
            if broadcast.name == _BROADCAST:
                _replace(broadcast, constant, filled)
        if not list(scalar.uses):
            constant.erase()


def _replace(broadcast: IrOperation, constant: IrOperation, filled: dict[str, IrValue]) -> None:
    type_ = broadcast.results[0].type
    name = str(type_)
    if name not in filled:
        element = ir().DenseElementsAttr(constant.attributes["value"]).get_splat_value()
        value = ir().DenseElementsAttr.get_splat(type_, element)
        filled[name] = inserted(constant, _CONSTANT, type_, value=value)
    broadcast.results[0].replace_all_uses_with(filled[name])
    broadcast.erase()
