"""Tools for consumers of composites, without torch: read, clean, replace, inspect, run.

    text, bytecode or portable artifact
        -> Module.read / Module.parse
        -> passes, which are plain functions from Module to Module:
             clean           makes a frontend's output readable and removes duplicates
             bind            replaces a composite's decomposition with a JAX function
             to_custom_call  replaces a composite with a kernel behind XLA's typed FFI
             decompose       replaces a composite with its operations
             legalize_chlo   replaces CHLO with StableHLO
             to_quantized_types, from_quantized_types  write or replace `!quant.uniform` types
             drop_cast_roundtrips, widen_dots  remove unnecessary casts
             unmerge_batch_dimensions  lets products keep the sharding of their batch dimensions
             refine          chooses sizes for a program whose sizes vary
        -> inspect (a table or JSON), run (numbers), Module.write
        -> compare (kernels against the decompositions that they replace), diagnose (a whole
           program on a device, composite by composite)

    module = Module.read("step.mlir")
    module = run_passes(module, [clean, partial(decompose, keep="ptxla.softmax")])
    module.write("lowered.mlir")

Importing this package imports neither torch nor jax, and nothing else of `lowering`. jaxlib is
imported by the first call that needs it, and so is jax: for running, for kernels, and by passes
that replace an operation with a JAX function of its operands.

It has three non-goals:

- *Optimizing.* Passes change how a program is written, not what it computes or how fast. The two
  that remove casts are the exception, and run only where they are named.
- *Shardings, layouts, devices.* Passes keep them, and never choose them.
- *A stable view of MLIR.* The interface of `Module.ir` is jaxlib's, and changes with it.
"""

from .comparison.agreement import program_difference
from .comparison.compare import compare
from .comparison.results import ComparedCall, Comparison
from .comparison.table import comparison_table
from .errors import (
    AttributeConversionError,
    BindError,
    BytecodeError,
    CompositeVersionError,
    CrashError,
    DynamicSizeError,
    MissingJaxError,
    OptionError,
    ParseError,
    PassError,
    RefusedOperationError,
    RunError,
    SizeError,
    StableHLOError,
    UnknownCompositeError,
    UnsupportedOperationError,
    VerificationError,
    VersionError,
)
from .ffi import register_targets
from .inspection.cast_report import Cast, CastReport, casts
from .inspection.report import Report, composite_count, inspect
from .inspection.table import cast_table, composite_table
from .isolation import Limits
from .jax_function import jax_function
from .module import Module
from .passes.annotate_shardings import annotate_shardings
from .passes.bind import bind
from .passes.canonicalize import canonicalize
from .passes.clean import clean, clean_passes
from .passes.compute_in_f64 import compute_in_f64
from .passes.compute_splats_as_scalars import compute_splats_as_scalars
from .passes.constant_inputs import constant_inputs
from .passes.decompose import decompose
from .passes.drop_cast_roundtrips import drop_cast_roundtrips
from .passes.drop_unused_functions import drop_unused_functions
from .passes.expand_batch_norm_grad import expand_batch_norm_grad
from .passes.expand_scatter_additions import expand_scatter_additions
from .passes.expand_select_and_scatter import expand_select_and_scatter
from .passes.expand_sorts import expand_sorts
from .passes.expand_triangular_solves import expand_triangular_solves
from .passes.expand_tuples import expand_tuples
from .passes.flatten_calls import flatten_calls
from .passes.flatten_scatter_indices import flatten_scatter_indices
from .passes.fold_data_movement import fold_data_movement
from .passes.fold_transposes import fold_transposes
from .passes.from_quantized_types import from_quantized_types
from .passes.join_inputs import Linear, join_inputs
from .passes.legalize_batch_groups import legalize_batch_groups
from .passes.legalize_chlo import legalize_chlo
from .passes.legalize_mhlo_custom_calls import legalize_mhlo_custom_calls
from .passes.legalize_reduce_inits import legalize_reduce_inits
from .passes.legalize_remainders import legalize_remainders
from .passes.legalize_signs import legalize_signs
from .passes.multiply_bytes_as_f32 import multiply_bytes_as_f32
from .passes.narrow_comparisons import narrow_comparisons
from .passes.narrow_scatter_indices import narrow_scatter_indices
from .passes.order_contractions import order_contractions
from .passes.order_inputs import order_inputs
from .passes.pad_dilated_inputs import pad_dilated_inputs
from .passes.reduce_booleans_as_i32 import reduce_booleans_as_i32
from .passes.rename_decompositions import rename_decompositions
from .passes.rename_module import rename_module
from .passes.share_decompositions import share_decompositions
from .passes.strip_leftovers import strip_leftovers
from .passes.to_custom_call import to_custom_call
from .passes.to_quantized_types import to_quantized_types
from .passes.unmerge_batch_dimensions import unmerge_batch_dimensions
from .passes.unshare_decompositions import unshare_decompositions
from .passes.use_booleans import use_booleans
from .passes.widen_byte_sums import widen_byte_sums
from .passes.widen_dots import widen_dots
from .passes.widen_unsigned_comparisons import widen_unsigned_comparisons
from .pipeline import Pass, run_passes
from .refinement import refine
from .run import Executable, compile_module, run
from .targets import TARGETS, Target, target_passes

__all__ = [
    "TARGETS",
    "AttributeConversionError",
    "BindError",
    "BytecodeError",
    "Cast",
    "CastReport",
    "ComparedCall",
    "Comparison",
    "CompositeVersionError",
    "CrashError",
    "DynamicSizeError",
    "Executable",
    "Limits",
    "Linear",
    "MissingJaxError",
    "Module",
    "OptionError",
    "ParseError",
    "Pass",
    "PassError",
    "RefusedOperationError",
    "Report",
    "RunError",
    "SizeError",
    "StableHLOError",
    "Target",
    "UnknownCompositeError",
    "UnsupportedOperationError",
    "VerificationError",
    "VersionError",
    "annotate_shardings",
    "bind",
    "canonicalize",
    "cast_table",
    "casts",
    "clean",
    "clean_passes",
    "compare",
    "comparison_table",
    "compile_module",
    "composite_count",
    "composite_table",
    "compute_in_f64",
    "compute_splats_as_scalars",
    "constant_inputs",
    "decompose",
    "drop_cast_roundtrips",
    "drop_unused_functions",
    "expand_batch_norm_grad",
    "expand_scatter_additions",
    "expand_select_and_scatter",
    "expand_sorts",
    "expand_triangular_solves",
    "expand_tuples",
    "flatten_calls",
    "flatten_scatter_indices",
    "fold_data_movement",
    "fold_transposes",
    "from_quantized_types",
    "inspect",
    "jax_function",
    "join_inputs",
    "legalize_batch_groups",
    "legalize_chlo",
    "legalize_mhlo_custom_calls",
    "legalize_reduce_inits",
    "legalize_remainders",
    "legalize_signs",
    "multiply_bytes_as_f32",
    "narrow_comparisons",
    "narrow_scatter_indices",
    "order_contractions",
    "order_inputs",
    "pad_dilated_inputs",
    "program_difference",
    "reduce_booleans_as_i32",
    "refine",
    "register_targets",
    "rename_decompositions",
    "rename_module",
    "run",
    "run_passes",
    "share_decompositions",
    "strip_leftovers",
    "target_passes",
    "to_custom_call",
    "to_quantized_types",
    "unmerge_batch_dimensions",
    "unshare_decompositions",
    "use_booleans",
    "widen_byte_sums",
    "widen_dots",
    "widen_unsigned_comparisons",
]
