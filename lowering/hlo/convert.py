"""HLO to StableHLO with jaxlib's converter, for graphs that it converts as torch_xla's does.

torch_xla's own converter takes about twice as long: it converts and verifies every instruction
several times. Here, half of the instructions are simplified away before the conversion.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from lowering.emission import hlo_proto
from lowering.emission.builder import renumber
from lowering.emission.linking import link
from lowering.emission.simplify import PURE
from lowering.hlo.shrink import shrink
from lowering.hlo.splats import fold_splats
from lowering.stablehlo import Module, bindings, clean_passes, run_passes
from lowering.stablehlo.insertion import replace_operation
from lowering.stablehlo.ir_types import IrModule
from lowering.stablehlo.passes.chlo import restore_operations
from lowering.stablehlo.passes.leftovers import canonicalize, strip_module_attributes
from lowering.stablehlo.symbols import CALL, COMPOSITE

# Opcodes that both converters write as the same text, except for a few folded constants. Other
# opcodes become MHLO, which only XLA reads, or are custom calls that torch_xla replaces.
_CONVERTED = PURE | {"call", "parameter", "rng", "rng-bit-generator"}

_ERF = "chlo.erf"
_FRONTEND_ATTRIBUTES = "mhlo.frontend_attributes"


def to_stablehlo(hlo: bytes, modules: Mapping[str, bytes] = MappingProxyType({})) -> Module | None:
    """The StableHLO of a serialized HLO module; None if jaxlib's converter cannot be used for it.

    Args:
        modules: the modules that the HLO refers to, by name; see `link`.

    Decompositions are shared; except for their names, `clean` has nothing to change.
    """
    module = hlo_proto.Module.FromString(hlo)
    computations = shrink(link(module, modules), hlo_proto.entry_computation(module))
    if not all(i.opcode in _CONVERTED for body in computations for i in body.instructions):
        return None
    return convert(module, computations)


def to_located_stablehlo(hlo: bytes, modules: Mapping[str, bytes]) -> Module:
    """Convert like `to_stablehlo` but without simplification, which takes longer. Operations have
    the locations in the metadata of instructions; operations of a decomposition have the location
    of one of its calls."""
    module = hlo_proto.Module.FromString(hlo)
    computations = link(module, {name: _without_metadata(hlo) for name, hlo in modules.items()})
    _give_metadata_to_callees(computations)
    return run_passes(convert(module, computations), clean_passes(), verify=False)


def _without_metadata(hlo: bytes) -> bytes:
    """The module without metadata. If JAX lowered the module, metadata name JAX's functions and
    refer to a table of that module."""
    module = hlo_proto.Module.FromString(hlo)
    for computation in module.computations:
        for instruction in computation.instructions:
            instruction.ClearField("metadata")
    written: bytes = module.SerializeToString()
    return written


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
    fold_splats(result.ir)
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
