"""legalize_reduce_inits: let maxima and minima start from infinity.

    reduce(x init: -3.4e38) applies maximum  =>  maximum(reduce(x init: -inf), -3.4e38)

torch_xla 2.9 starts `amax` and `amin` from the last finite number. LiteRT 2.3 has such a reduction
only if it starts from infinity, or from the last integer; its converter leaves any other as
STABLEHLO_REDUCE, which its runtime does not know. Both forms have the same bits, also for rows of
infinities and of NaN.
"""

from string import Template

from ..bindings import (
    IrModule,
    IrOperation,
    attributes,
    defining_operation,
    find_operations,
    splat_value,
)
from ..dtypes import numpy_dtype, shape_and_element_type
from ..in_place import in_place
from ..inlining import inline_text
from ..neutral_elements import neutral_element
from ..sharding_attributes import is_sharded

OPERATION = "stablehlo.reduce"
_OPERATIONS = ("stablehlo.maximum", "stablehlo.minimum")

_LEGAL = Template("""
func.func private @reduce(%x: $full, %last: tensor<$element>) -> $rows {
  %neutral = stablehlo.constant dense<$neutral> : tensor<$element>
  %found = stablehlo.reduce(%x init: %neutral) applies $operation
    across dimensions = [$dimensions] : ($full, tensor<$element>) -> $rows
  %bound = stablehlo.broadcast_in_dim %last, dims = [] : (tensor<$element>) -> $rows
  %result = $operation %found, %bound : $rows
  return %result : $rows
}
""")


@in_place
def legalize_reduce_inits(module: IrModule) -> None:
    """Change every maximum and minimum that starts from another number than the neutral one.
    Reductions of booleans, from NaN, with a dynamic result or with a sharding stay."""
    for reduction in find_operations(module.operation, OPERATION):
        text = _legal(reduction)
        if text is not None:
            inline_text(reduction, text, "<reduce>")


def _legal(reduction: IrOperation) -> str | None:
    """The function that takes the place of a reduction; None if that stays."""
    first, *rest = (o.operation for o in reduction.regions[0].blocks[0].operations)
    rows = shape_and_element_type(str(reduction.results[0].type))
    is_known = len(reduction.results) == 1 and first.name in _OPERATIONS and len(rest) == 1
    if not is_known or rows is None or rows[1] == "i1" or is_sharded(reduction):
        return None
    element = rows[1]
    neutral = neutral_element(first.name.removeprefix("stablehlo."), element)
    if neutral is None or _starts_from(reduction, neutral, element):
        return None
    return _LEGAL.substitute(
        full=reduction.operands[0].type,
        element=element,
        rows=reduction.results[0].type,
        neutral=neutral,
        operation=first.name,
        dimensions=", ".join(map(str, attributes(reduction)["dimensions"])),
    )


def _starts_from(reduction: IrOperation, neutral: str, element: str) -> bool:
    """Return whether a reduction starts from a constant with the bits of a number, or from NaN."""
    import numpy as np

    owner = defining_operation(reduction.operands[1])
    if owner is None or owner.name != "stablehlo.constant":
        return False
    start = splat_value(owner)
    if isinstance(start, float):
        bits = np.full((), start, numpy_dtype(element)).tobytes()[::-1].hex()
        return start != start or neutral == f"0x{bits.upper()}"
    return neutral == str(start)
