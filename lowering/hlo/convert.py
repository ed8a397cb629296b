"""HLO to StableHLO with jaxlib's converter, for graphs that it converts as torch_xla's does.

torch_xla's own converter takes about twice as long: it converts and verifies every instruction
several times. Here, half of the instructions are simplified away before the conversion.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from lowering.emission import hlo_proto
from lowering.emission.builder import renumber
from lowering.emission.simplify import PURE
from lowering.hlo.shrink import shrink
from lowering.stablehlo import Module, bindings, clean_passes, run_passes
from lowering.stablehlo.insertion import inserted, replace_by, replace_operation
from lowering.stablehlo.ir_types import IrModule, IrOperation, IrValue
from lowering.stablehlo.passes.chlo import restore_operations
from lowering.stablehlo.passes.leftovers import canonicalize, strip_module_attributes
from lowering.stablehlo.symbols import CALL, COMPOSITE, body, functions

# Opcodes that both converters write as the same text, except for a few folded constants. Other
# opcodes become MHLO, which only XLA reads, or are custom calls that torch_xla replaces.
_CONVERTED = PURE | {"call", "parameter", "rng", "rng-bit-generator"}

_ERF = "chlo.erf"
_FRONTEND_ATTRIBUTES = "mhlo.frontend_attributes"
_CONSTANT, _BROADCAST = "stablehlo.constant", "stablehlo.broadcast_in_dim"


def to_stablehlo(hlo: bytes) -> Module | None:
    """The StableHLO of a serialized HLO module; None if jaxlib's converter cannot be used for it.

    Decompositions are shared; except for their names, `clean` has nothing to change.
    """
    module = hlo_proto.Module.FromString(hlo)
    computations = shrink(module.computations, hlo_proto.entry_computation(module))
    if not all(i.opcode in _CONVERTED for body in computations for i in body.instructions):
        return None
    return convert(module, computations)


def to_located_stablehlo(hlo: bytes) -> Module:
    """Convert like `to_stablehlo` but without simplification, which takes longer. Operations have
    the locations in the metadata of instructions; operations of a decomposition have the location
    of one of its calls."""
    module = hlo_proto.Module.FromString(hlo)
    _give_metadata_to_callees(module.computations)
    return run_passes(convert(module, list(module.computations)), clean_passes(), verify=False)


def _give_metadata_to_callees(computations: Sequence[Any]) -> None:
    """Copy the metadata of calls to instructions of callees, which come before their callers."""
    by_id = {computation.id: computation for computation in computations}
    for computation in reversed(computations):
        for call in computation.instructions:
            for called in call.called_computation_ids if call.HasField("metadata") else ():
                for instruction in by_id[called].instructions:
                    if not instruction.HasField("metadata"):
                        instruction.metadata.CopyFrom(call.metadata)


def convert(module: Any, computations: Sequence[Any]) -> Module:
    """The StableHLO of an HLO module (protobuf, changed in place) with these computations."""
    entry = hlo_proto.entry_computation(module)
    renumber(computations, first=1)
    for computation in computations:
        computation.name = f"{hlo_proto.stem(computation.name)}.{computation.id}"
        for instruction in computation.instructions:
            instruction.name = f"i{instruction.id}"
            if instruction.opcode == "erf":  # not in StableHLO; it becomes a CHLO operation
                instruction.opcode, instruction.custom_call_target = "custom-call", _ERF
    module.entry_computation_id = entry.id
    module.name = hlo_proto.stem(module.name)
    module.ClearField("computations")
    module.computations.extend(computations)
    _call_plainly(module)
    hlo = module.SerializeToString()
    result = Module.from_bytes(bindings.hlo_to_stablehlo(hlo), "StableHLO of the graph")
    _restore_composites(result.ir)
    if _ERF.encode() in hlo:
        restore_operations(result.ir, (_ERF,))
    canonicalize.change(result.ir)
    _fold_splats(result.ir)
    strip_module_attributes(result.ir)
    return result


def _call_plainly(module: Any) -> None:
    """Turn composites with several results into plain calls that keep the frontend attributes.

    The converter writes a composite with a tuple result with one result, which is invalid
    StableHLO, but a call with several results.
    """
    for computation in module.computations:
        for item in computation.instructions:
            if item.is_composite and item.shape.element_type == hlo_proto.TUPLE:
                item.is_composite = False


def _restore_composites(module: IrModule) -> None:
    """Turn calls with the frontend attributes of a composite into composites again."""
    for call in bindings.find_operations(module.operation, CALL):
        if _FRONTEND_ATTRIBUTES not in call.attributes:
            continue
        values = {item.name: item.attr.value for item in call.attributes[_FRONTEND_ATTRIBUTES]}
        ir = bindings.ir()
        with bindings.building(call.context):
            written = {
                "name": ir.StringAttr.get(values["composite.name"]),
                "composite_attributes": ir.Attribute.parse(values["composite.attributes"]),
                "decomposition": call.attributes["callee"],
                "version": ir.Attribute.parse(f"{values['composite.version']} : i32"),
            }
        replace_operation(call, COMPOSITE, written)


def _fold_splats(module: IrModule) -> None:
    """Fold broadcasts of the constants at the head of each function, where `canonicalize` puts
    them. HLO would write out every element of such a constant."""
    with bindings.building(module.context):
        for function in functions(module).values():
            block = body(function)
            operations = (item.operation for item in (() if block is None else block.operations))
            for constant in list(takewhile(lambda item: item.name == _CONSTANT, operations)):
                type_ = constant.results[0].type
                if type_.rank == 0 and "complex" not in str(type_):  # bindings lack complex splats
                    _fill(constant)


def _fill(constant: IrOperation) -> None:
    """Replace the broadcasts of a scalar constant by one constant for each type."""
    (scalar,) = constant.results
    filled: dict[str, IrValue] = {}
    for operation in [use.owner.operation for use in scalar.uses]:
        if operation.name != _BROADCAST:
            continue
        type_ = operation.results[0].type
        if str(type_) not in filled:
            dense = bindings.ir().DenseElementsAttr
            value = dense.get_splat(type_, dense(constant.attributes["value"]).get_splat_value())
            filled[str(type_)] = inserted(constant, _CONSTANT, type_, value=value)
        replace_by(operation, filled[str(type_)])
    if not list(scalar.uses):
        constant.erase()
