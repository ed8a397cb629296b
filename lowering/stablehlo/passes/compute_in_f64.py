"""compute_in_f64: compute a module's floats in f64, as a reference for its precision.

func.func @main(%x: tensor<4xbf16>)         func.func @main(%x: tensor<4xbf16>)
    -> tensor<4xbf16> {               =>        -> tensor<4xf64> {
  %0 = stablehlo.tanh %x                      %0 = stablehlo.convert %x : .. -> tensor<4xf64>
                                              %1 = stablehlo.tanh %0 : tensor<4xf64>
"""

from ..bindings import attributes, building, ir, nested_operations
from ..data_movement import CONVERT, element_type
from ..dtypes import is_float
from ..errors import UnsupportedOperationError, VerificationError
from ..insertion import behind, replace_by, resized
from ..ir_types import IrOperation, IrType, IrValue
from ..module import Module
from ..symbols import CUSTOM_CALL, body, functions, update_type
from .decompositions import decompose, flatten_calls

_CONSTANT = "stablehlo.constant"
_ROUNDING = "stablehlo.reduce_precision"

# Operations whose result depends on the type of their floats.
_NO_FORM = {
    "stablehlo.bitcast_convert": "it reads the bits of floats",
    "stablehlo.rng": "it draws other numbers for another type",
}


def compute_in_f64(module: Module) -> Module:
    """Inline everything into `@main`, and compute floats in f64 and complex numbers in
    `complex<f64>`.

    Inputs keep their types and are converted. Outputs are f64. Casts between floats and
    `reduce_precision` round nothing. A constant keeps the value that it has in its own type: 0.1 in
    f32 stays the f32 number.

    Raises:
        UnsupportedOperationError: an operation has no form in f64; the message names it.
    """
    result = Module(flatten_calls(decompose(module)).copy_ir())
    main = functions(result.ir).get("main")
    block = None if main is None else body(main)
    if main is None or block is None:
        raise UnsupportedOperationError("there is no function @main with one block")
    _, *operations = nested_operations(main)
    constants = [operation for operation in operations if operation.name == _CONSTANT]
    for operation in operations:
        _refuse(operation)
    for operation in operations:
        _widen(operation)
    # In reverse, because each conversion of an argument becomes the first operation.
    arguments = reversed(list(block.arguments))
    for value in (*arguments, *(constant.results[0] for constant in constants)):
        wide = _wide(value)
        if wide is not None:
            behind(value, CONVERT, wide)
    update_type(main)
    try:
        result.verify()
    except VerificationError as error:
        raise UnsupportedOperationError(f"the module is invalid in f64: {error}") from None
    return result


def _refuse(operation: IrOperation) -> None:
    if not any(_wide(value) for value in (*operation.operands, *operation.results)):
        return
    if operation.name == CUSTOM_CALL:
        target = operation.attributes["call_target_name"].value
        raise UnsupportedOperationError(f"custom call @{target}: only its target knows its types")
    if operation.name in _NO_FORM:
        raise UnsupportedOperationError(f"{operation.name}: {_NO_FORM[operation.name]}")


def _widen(operation: IrOperation) -> None:
    """Change the types of the results of an operation, and of the arguments of its regions."""
    if operation.name == _CONSTANT:
        return
    if operation.name == _ROUNDING:
        replace_by(operation, operation.operands[0])
        return
    for name in ("xla_shape", "algorithm"):  # the former type, and the type of the computation
        if name in attributes(operation):
            del operation.attributes[name]
    arguments = [
        argument
        for region in operation.regions
        for block in region.blocks
        for argument in block.arguments
    ]
    for value in (*operation.results, *arguments):
        wide = _wide(value)
        if wide is not None:
            value.set_type(wide)


def _wide(value: IrValue) -> IrType | None:
    """The type with f64 instead of a narrower float; None for all other types."""
    kinds, element = ir(), element_type(value)
    with building(value.type.context):
        if element == "complex<f32>":
            return resized(value.type, element=kinds.ComplexType.get(kinds.F64Type.get()))
        if element != "f64" and is_float(element):
            return resized(value.type, element=kinds.F64Type.get())
    return None
