"""Attributes and names that have no meaning, and MLIR's canonical form."""

import re

from ..bindings import attributes, find_operations, run_pipeline, string_value
from ..in_place import in_place
from ..insertion import replace_by
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

        module @IrToHlo.99 attributes {mhlo.is_dynamic = false, ..}  =>  module @IrToHlo

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


# The converter of torch_xla ends with the same passes, and has no `dot` either.
_PIPELINE = (
    "builtin.module(func.func(stablehlo-legalize-deprecated-ops,canonicalize,cse),symbol-dce)"
)

# Attributes that XLA's converter and JAX write with their default values.
_WINDOW = ("window_strides", "padding")
_DEFAULTS = {
    "stablehlo.compare": ("compare_type",),  # implied by the element type
    "stablehlo.convolution": (
        *(*_WINDOW, "lhs_dilation", "rhs_dilation", "window_reversal", "precision_config"),
    ),
    "stablehlo.dot_general": ("precision_config",),
    "stablehlo.gather": ("indices_are_sorted",),
    "stablehlo.reduce_window": (*_WINDOW, "base_dilations", "window_dilations"),
    "stablehlo.select_and_scatter": _WINDOW,
    "stablehlo.scatter": ("indices_are_sorted", "unique_indices"),
}
_DEFAULT_VALUE = re.compile(
    r"false|array<i1: false(, false)*>|array<i64: 1(, 1)*>|dense<0> : tensor<\d+x2xi64>"
    r"|\[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>\]"
    r"|#stablehlo<comparison_type (FLOAT|SIGNED|UNSIGNED)>"
)
_NO_PADDING = re.compile(r"array<i64: 0(, 0)*>")
_PAD = "stablehlo.pad"
_EDGES = ("edge_padding_low", "edge_padding_high", "interior_padding")


@in_place
def canonicalize(module: IrModule) -> None:
    """Run MLIR's passes `canonicalize` and `cse`, and drop attributes with default values, XLA's
    attributes for layouts, and pads by nothing.

        %0 = dot_general %x, %y, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]
            =>  %0 = dot_general %x, %y, contracting_dims = [1] x [0]
    """
    run_pipeline(module, _PIPELINE)
    # One walk for all changes, because the walk takes longer than the changes.
    for operation in find_operations(module.operation, *_DEFAULTS, *WITH_LAYOUT, _PAD):
        name, named = operation.name, operation.attributes
        for key in _DEFAULTS.get(name, ()):
            if key in named and _DEFAULT_VALUE.fullmatch(str(named[key])):
                del named[key]
        if name in WITH_LAYOUT:
            strip_layout(operation)
        elif name == _PAD and all(_NO_PADDING.fullmatch(str(named[key])) for key in _EDGES):
            replace_by(operation, operation.operands[0])


_NO_LETTER = re.compile(r"\W", re.ASCII)


@in_place
def rename_module(module: IrModule, *, name: str) -> None:
    """Name the module after its model.

        module @IrToHlo  =>  module @BertForMaskedLM

    Characters that MLIR would have to quote become underscores.
    """
    symbol = _NO_LETTER.sub("_", name)
    if not symbol or symbol[0].isdigit():
        symbol = f"_{symbol}"
    rename(module.operation, symbol)
