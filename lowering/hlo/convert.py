"""HLO to StableHLO by jaxlib's converter, for the graphs that it converts as torch_xla's does.

torch_xla's own converter takes about twice as long: it converts and verifies every instruction
several times, and half of them are simplified away beforehand here.
"""

from __future__ import annotations

import re

from lowering.emission import hlo_proto
from lowering.hlo.shrink import reachable, serialize, shrink
from lowering.hlo.simplify import ERF, PURE, Body
from lowering.hlo.splats import fold_splats
from lowering.stablehlo import Module, bindings
from lowering.stablehlo.bindings import IrModule
from lowering.stablehlo.passes.strip_leftovers import strip_module_attributes
from lowering.stablehlo.symbols import CUSTOM_CALL

# What is converted to the text that torch_xla's converter gives, but for folds of a few constants.
# Convolutions and windows come with every default written out, some operations as MHLO, which only
# XLA reads; some custom calls are for torch_xla to replace.
_CONVERTED = PURE | {"call", "parameter", "rng", "rng-bit-generator"}

_COUNTER = re.compile(r"\.\d+$")

# As torch_xla's converter ends, which has no `dot` either.
_PIPELINE = (
    "builtin.module(func.func(stablehlo-legalize-deprecated-ops,canonicalize,cse),symbol-dce)"
)

# Attributes that say nothing: those that the converter writes with their default values,
# and the memory layout that XLA chose for its own HLO.
_LAYOUT = ("result_layout", "xla_shape")
_DEFAULTS = {
    "stablehlo.dot_general": ("precision_config",),
    "stablehlo.gather": ("indices_are_sorted",),
    "stablehlo.bitcast_convert": _LAYOUT,
    "stablehlo.reshape": _LAYOUT,
    "stablehlo.transpose": _LAYOUT,
    "stablehlo.scatter": ("indices_are_sorted", "unique_indices"),
}
_DEFAULT_VALUES = ("false", "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]")


def to_stablehlo(hlo: bytes) -> Module | None:
    """The StableHLO of a serialized HLO module; None where this converter is no match for it.

    Decompositions are shared; but for their names, `clean` finds nothing to do.
    """
    convert = bindings.hlo_converter()
    if convert is None:
        return None
    module = hlo_proto.Module.FromString(hlo)
    module.name = _COUNTER.sub("", module.name)
    bodies = reachable(module, shrink(module))
    if not all(map(_converted, bodies)):
        return None
    result = Module.from_bytes(convert(serialize(module, bodies)), "StableHLO of the graph")
    if any("erf" in body.opcodes for body in bodies):
        _restore_erf(result.ir)
    bindings.run_pipeline(result.ir, _PIPELINE)
    fold_splats(result.ir)
    _drop_defaults(result.ir)
    strip_module_attributes(result.ir)
    return result


def _drop_defaults(module: IrModule) -> None:
    for operation in bindings.find_operations(module.operation, *_DEFAULTS):
        for name in _DEFAULTS[operation.name]:
            if name not in operation.attributes:
                continue
            if name in _LAYOUT or str(operation.attributes[name]) in _DEFAULT_VALUES:
                del operation.attributes[name]


def _restore_erf(module: IrModule) -> None:
    for call in bindings.find_operations(module.operation, CUSTOM_CALL):
        if call.attributes["call_target_name"].value != ERF:
            continue
        with bindings.building(call.context):
            erf = bindings.ir().Operation.create(
                ERF,
                results=[call.results[0].type],
                operands=list(call.operands),
                ip=bindings.ir().InsertionPoint(call),
            )
        call.results[0].replace_all_uses_with(erf.results[0])
        call.erase()


def _converted(body: Body) -> bool:
    """A composite of several results, which is a call of a tuple, becomes invalid StableHLO."""
    return _CONVERTED.issuperset(body.opcodes) and not any(
        opcode == "call" and instruction.shape.element_type == hlo_proto.TUPLE
        for opcode, instruction in zip(body.opcodes, body.instructions, strict=True)
    )
