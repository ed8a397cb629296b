"""expand_batch_norm_grad: replace batch norm's gradient with elementary operations.

    stablehlo.batch_norm_grad  =>  subtract, multiply, reduce, rsqrt, ..

IREE 3.13 supports `batch_norm_training` and `batch_norm_inference` but has no rule for this
operation. torch_xla 2.9 also produces it for layer norm.
"""

from math import prod
from string import Template

from ..bindings import IrModule, IrOperation, attributes, find_operations
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..inlining import inline_text

OPERATION = "stablehlo.batch_norm_grad"

# The same expansion as in XLA. N is the number of elements per feature, and d is the gradient of
# the output.
_EXPANSION = Template("""
func.func private @batch_norm_grad(%x: $full, %scale: $row, %mean: $row, %variance: $row, %d: $full)
    -> ($full, $row, $row) {
  %zero = stablehlo.constant dense<0.0> : tensor<$element>
  %epsilon = stablehlo.constant dense<$epsilon> : $row
  %n_row = stablehlo.constant dense<$count> : $row
  %n = stablehlo.constant dense<$count> : $full
  %mean_full = stablehlo.broadcast_in_dim %mean, dims = [$axis] : ($row) -> $full
  %centered = stablehlo.subtract %x, %mean_full : $full
  %shifted = stablehlo.add %variance, %epsilon : $row
  %inverse = stablehlo.rsqrt %shifted : $row
  %product = stablehlo.multiply %d, %centered : $full
  %products = stablehlo.reduce(%product init: %zero) applies stablehlo.add
    across dimensions = [$others] : ($full, tensor<$element>) -> $row
  %d_offset = stablehlo.reduce(%d init: %zero) applies stablehlo.add
    across dimensions = [$others] : ($full, tensor<$element>) -> $row
  %d_scale = stablehlo.multiply %products, %inverse : $row
  %scaled = stablehlo.multiply %scale, %inverse : $row
  %factor = stablehlo.divide %scaled, %n_row : $row
  %along = stablehlo.divide %products, %shifted : $row
  %factor_full = stablehlo.broadcast_in_dim %factor, dims = [$axis] : ($row) -> $full
  %along_full = stablehlo.broadcast_in_dim %along, dims = [$axis] : ($row) -> $full
  %offset_full = stablehlo.broadcast_in_dim %d_offset, dims = [$axis] : ($row) -> $full
  %total = stablehlo.multiply %d, %n : $full
  %without_offset = stablehlo.subtract %total, %offset_full : $full
  %projected = stablehlo.multiply %centered, %along_full : $full
  %rest = stablehlo.subtract %without_offset, %projected : $full
  %d_x = stablehlo.multiply %rest, %factor_full : $full
  return %d_x, %d_scale, %d_offset : $full, $row, $row
}
""")


@in_place
def expand_batch_norm_grad(module: IrModule) -> None:
    """Expand every `stablehlo.batch_norm_grad`.

    Raises:
      UnsupportedOperationError: one has a dynamic shape.
    """
    for call in find_operations(module.operation, OPERATION):
        inline_text(call, _expansion(call), "<batch_norm_grad>")


def _expansion(call: IrOperation) -> str:
    full, row = call.operands[0].type, call.operands[1].type
    if not full.has_static_shape:
        raise UnsupportedOperationError(f"{OPERATION} of {full}: refine its shape first")
    named = attributes(call)
    axis = named["feature_index"].value
    others = [dim for dim in range(full.rank) if dim != axis]
    return _EXPANSION.substitute(
        full=full,
        row=row,
        element=full.element_type,
        epsilon=f"{named['epsilon'].value:.9e}",
        count=f"{prod(full.shape[dim] for dim in others):.1f}",
        axis=axis,
        others=", ".join(map(str, others)),
    )
