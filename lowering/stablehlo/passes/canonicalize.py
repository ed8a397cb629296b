"""canonicalize: MLIR's canonical form, without attributes that have their default values.

%0 = dot_general %x, %y, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]
    =>  %0 = dot_general %x, %y, contracting_dims = [1] x [0]
"""

import re

from ..bindings import find_operations, run_pipeline
from ..in_place import in_place
from ..insertion import replace_by
from ..ir_types import IrModule
from .strip_leftovers import WITH_LAYOUT, strip_layout

# The converter of torch_xla ends with the same passes, and has no `dot` either.
_PIPELINE = (
    "builtin.module(func.func(stablehlo-legalize-deprecated-ops,canonicalize,cse),symbol-dce)"
)

# Attributes that XLA's converter and JAX write with their default values.
_WINDOW = ("window_strides", "padding")
_DEFAULTS = {
    "stablehlo.compare": ("compare_type",),  # implied by the element type
    "stablehlo.convolution": (
        *_WINDOW,
        "lhs_dilation",
        "rhs_dilation",
        "window_reversal",
        "precision_config",
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
    attributes for layouts, and pads by nothing."""
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
