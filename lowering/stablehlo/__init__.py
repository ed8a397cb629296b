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

Importing this package imports neither torch nor jax, and nothing else of `lowering`. jaxlib and jax
are imported by the first call that needs them: jax for running, for kernels, and by passes that
replace an operation with a JAX function of its operands.

It has three non-goals:

- *Optimizing.* Passes change how a program is written, not what it computes or how fast. The two
  passes that remove casts are the exception, and run only where they are named.
- *Shardings, layouts, devices.* Passes keep them, and never choose them.
- *A stable view of MLIR.* The interface of `Module.ir` is jaxlib's, and changes with it.
"""

from .comparison.compare import compare as compare
from .comparison.compare import program_difference as program_difference
from .comparison.results import ComparedCall as ComparedCall
from .comparison.results import Comparison as Comparison
from .comparison.results import comparison_table as comparison_table
from .errors import AttributeConversionError as AttributeConversionError
from .errors import BindError as BindError
from .errors import BytecodeError as BytecodeError
from .errors import CompositeVersionError as CompositeVersionError
from .errors import CrashError as CrashError
from .errors import DynamicSizeError as DynamicSizeError
from .errors import MissingJaxError as MissingJaxError
from .errors import OptionError as OptionError
from .errors import ParseError as ParseError
from .errors import PassError as PassError
from .errors import RefusedOperationError as RefusedOperationError
from .errors import RunError as RunError
from .errors import SizeError as SizeError
from .errors import StableHLOError as StableHLOError
from .errors import UnknownCompositeError as UnknownCompositeError
from .errors import UnsupportedOperationError as UnsupportedOperationError
from .errors import VerificationError as VerificationError
from .errors import VersionError as VersionError
from .inspection.cast_report import Cast as Cast
from .inspection.cast_report import CastReport as CastReport
from .inspection.cast_report import casts as casts
from .inspection.report import Report as Report
from .inspection.report import composite_count as composite_count
from .inspection.report import inspect as inspect
from .inspection.table import cast_table as cast_table
from .inspection.table import composite_table as composite_table
from .isolation import Limits as Limits
from .jax_function import jax_function as jax_function
from .module import Module as Module
from .passes.annotate_shardings import annotate_shardings as annotate_shardings
from .passes.arithmetic import legalize_divisions as legalize_divisions
from .passes.arithmetic import legalize_remainders as legalize_remainders
from .passes.arithmetic import legalize_rounds as legalize_rounds
from .passes.arithmetic import legalize_signs as legalize_signs
from .passes.bind import bind as bind
from .passes.casts import drop_cast_roundtrips as drop_cast_roundtrips
from .passes.casts import widen_dots as widen_dots
from .passes.chlo import legalize_chlo as legalize_chlo
from .passes.chlo import (
    legalize_mhlo_custom_calls as legalize_mhlo_custom_calls,
)
from .passes.clean import clean as clean
from .passes.clean import clean_passes as clean_passes
from .passes.comparisons import narrow_comparisons as narrow_comparisons
from .passes.comparisons import (
    widen_unsigned_comparisons as widen_unsigned_comparisons,
)
from .passes.compute_in_f64 import compute_in_f64 as compute_in_f64
from .passes.compute_splats_as_scalars import compute_splats_as_scalars as compute_splats_as_scalars
from .passes.convolutions import legalize_batch_groups as legalize_batch_groups
from .passes.convolutions import pad_dilated_inputs as pad_dilated_inputs
from .passes.decompositions import decompose as decompose
from .passes.decompositions import drop_unused_functions as drop_unused_functions
from .passes.decompositions import flatten_calls as flatten_calls
from .passes.decompositions import inline_f64_composites as inline_f64_composites
from .passes.decompositions import rename_decompositions as rename_decompositions
from .passes.decompositions import share_decompositions as share_decompositions
from .passes.decompositions import unshare_decompositions as unshare_decompositions
from .passes.expand_sorts import expand_sorts as expand_sorts
from .passes.expand_triangular_solves import expand_triangular_solves as expand_triangular_solves
from .passes.expand_tuples import expand_tuples as expand_tuples
from .passes.fold_data_movement import fold_data_movement as fold_data_movement
from .passes.gradients import expand_batch_norm_grad as expand_batch_norm_grad
from .passes.gradients import expand_select_and_scatter as expand_select_and_scatter
from .passes.leftovers import canonicalize as canonicalize
from .passes.leftovers import rename_module as rename_module
from .passes.leftovers import strip_leftovers as strip_leftovers
from .passes.main_inputs import Linear as Linear
from .passes.main_inputs import add_inputs as add_inputs
from .passes.main_inputs import constant_inputs as constant_inputs
from .passes.main_inputs import join_inputs as join_inputs
from .passes.main_inputs import order_inputs as order_inputs
from .passes.narrow_arithmetic import narrow_arithmetic as narrow_arithmetic
from .passes.products import fold_transposes as fold_transposes
from .passes.products import multiply_bytes_as_f32 as multiply_bytes_as_f32
from .passes.products import order_contractions as order_contractions
from .passes.products import unmerge_batch_dimensions as unmerge_batch_dimensions
from .passes.quantized_types import from_quantized_types as from_quantized_types
from .passes.quantized_types import to_quantized_types as to_quantized_types
from .passes.reductions import legalize_reduce_inits as legalize_reduce_inits
from .passes.reductions import reduce_booleans_as_i32 as reduce_booleans_as_i32
from .passes.reductions import widen_byte_sums as widen_byte_sums
from .passes.scatters import expand_scatter_additions as expand_scatter_additions
from .passes.scatters import flatten_scatter_indices as flatten_scatter_indices
from .passes.scatters import narrow_scatter_indices as narrow_scatter_indices
from .passes.split_complex_numbers import split_complex_numbers as split_complex_numbers
from .passes.to_custom_call import to_custom_call as to_custom_call
from .passes.use_booleans import use_booleans as use_booleans
from .pipeline import Pass as Pass
from .pipeline import run_passes as run_passes
from .refinement import refine as refine
from .run import Executable as Executable
from .run import compile_module as compile_module
from .run import register_targets as register_targets
from .run import run as run
from .targets import TARGETS as TARGETS
from .targets import Target as Target
from .targets import target_passes as target_passes
