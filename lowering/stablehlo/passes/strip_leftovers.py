"""strip_leftovers: remove what HLO left on the module that says nothing.

module @IrToHlo.99 attributes {mhlo.is_dynamic = false, ..}  =>  module @IrToHlo
"""

import re

from ..bindings import attributes, building, find_operations, ir
from ..module import Module

# Module attributes that torch_xla 2.9 always prints, and the value that means "nothing to say".
_EMPTY_ATTRIBUTES = {
    "mhlo.cross_program_prefetches": "[]",
    "mhlo.input_output_alias": "[]",
    "mhlo.is_dynamic": "false",
    "mhlo.use_auto_spmd_partitioning": "false",
}
# The memory layout that XLA chose for its own HLO, noted on the operations it prints this way.
# StableHLO gives these attributes no meaning, and the layout is the next compiler's to choose.
_LAYOUT_ATTRIBUTES = ("result_layout", "xla_shape")
_WITH_LAYOUT = ("stablehlo.transpose", "stablehlo.reshape", "stablehlo.bitcast_convert")
_COUNTER = re.compile(r"\.\d+$")


def strip_leftovers(module: Module) -> Module:
    """Drop empty `mhlo.*` module attributes, XLA's layout notes, and the counter in the name.

    A module attribute that says something, such as an input that aliases an output, stays.
    """
    result = module.copy_ir()
    operation = result.operation
    for name, attribute in attributes(operation).items():
        if _EMPTY_ATTRIBUTES.get(name) == str(attribute):
            del operation.attributes[name]
    for noted in find_operations(operation, *_WITH_LAYOUT):
        for name in _LAYOUT_ATTRIBUTES:
            if name in noted.attributes:
                del noted.attributes[name]
    if _COUNTER.search(module.name):
        with building(result.context):
            name = _COUNTER.sub("", module.name)
            operation.attributes["sym_name"] = ir().StringAttr.get(name)
    return Module(result)
