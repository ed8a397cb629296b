"""strip_leftovers: remove attributes of HLO from the module that have no meaning.

module @IrToHlo.99 attributes {mhlo.is_dynamic = false, ..}  =>  module @IrToHlo
"""

import re

from ..bindings import attributes, find_operations, string_value
from ..in_place import in_place
from ..ir_types import IrModule, IrOperation
from ..symbols import rename

# Module attributes that torch_xla 2.9 always prints, and their default values.
_EMPTY_ATTRIBUTES = {
    "mhlo.cross_program_prefetches": "[]",
    "mhlo.input_output_alias": "[]",
    "mhlo.is_dynamic": "false",
    "mhlo.use_auto_spmd_partitioning": "false",
}
# jaxlib's converter writes the memory layout of inputs and outputs to these attributes.
_ENTRY_LAYOUT = "mhlo.xla_entry_computation_"
# XLA writes the memory layout that it chose for its own HLO to these attributes of some operations.
# They have no meaning in StableHLO, and the next compiler chooses its own layout.
_LAYOUT_ATTRIBUTES = ("result_layout", "xla_shape")
WITH_LAYOUT = (
    *("stablehlo.bitcast_convert", "stablehlo.broadcast_in_dim", "stablehlo.convert"),
    *("stablehlo.reshape", "stablehlo.reverse", "stablehlo.transpose"),
)
_COUNTER = re.compile(r"\.\d+$")


@in_place
def strip_leftovers(module: IrModule) -> None:
    """Drop empty `mhlo.*` module attributes, XLA's layout attributes, and the counter in the name.

    Module attributes with a meaning, such as an input that aliases an output, stay.
    """
    operation = module.operation
    strip_module_attributes(module)
    for noted in find_operations(operation, *WITH_LAYOUT):
        strip_layout(noted)
    name = attributes(operation).get("sym_name")
    if name is not None and _COUNTER.search(string_value(name)):
        rename(operation, _COUNTER.sub("", string_value(name)))


def strip_module_attributes(module: IrModule) -> None:
    """Drop only the attributes of the module itself."""
    operation = module.operation
    for key, attribute in attributes(operation).items():
        if _EMPTY_ATTRIBUTES.get(key) == str(attribute) or key.startswith(_ENTRY_LAYOUT):
            del operation.attributes[key]


def strip_layout(operation: IrOperation) -> None:
    """Drop the memory layout attributes of an operation of `WITH_LAYOUT`."""
    for key in _LAYOUT_ATTRIBUTES:
        if key in operation.attributes:
            del operation.attributes[key]
