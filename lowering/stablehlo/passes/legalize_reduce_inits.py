"""legalize_reduce_inits: let maxima and minima start from infinity.

    reduce(x init: -3.4e38) applies maximum  =>  maximum(reduce(x init: -inf), -3.4e38)

torch_xla 2.9 starts `amax` and `amin` from the last finite number. LiteRT 2.3 has such a reduction
only if it starts from infinity; its converter leaves any other as STABLEHLO_REDUCE, which its
runtime does not know. Both forms have the same bits, also for rows of infinities and of NaN.
"""

from string import Template
from typing import Any

from .. import bindings
from ..bindings import IrModule, IrOperation, attributes, find_operations, splat_value
from ..dtypes import numpy_dtype, shape_and_element_type
from ..in_place import in_place
from ..inlining import inline_call

OPERATION = "stablehlo.reduce"
_SIGNS = {"stablehlo.maximum": -1, "stablehlo.minimum": 1}

_LEGAL = Template("""
func.func private @reduce(%x: $full, %last: tensor<$element>) -> $rows {
  %infinity = stablehlo.constant dense<$infinity> : tensor<$element>
  %found = stablehlo.reduce(%x init: %infinity) applies $operation
    across dimensions = [$dimensions] : ($full, tensor<$element>) -> $rows
  %bound = stablehlo.broadcast_in_dim %last, dims = [] : (tensor<$element>) -> $rows
  %result = $operation %found, %bound : $rows
  return %result : $rows
}
""")


@in_place
def legalize_reduce_inits(module: IrModule) -> None:
    """Change every maximum and minimum of floats that starts from the last finite number. Those
    whose result has a dynamic shape stay."""
    for reduction in find_operations(module.operation, OPERATION):
        text = _legal(reduction)
        if text is not None:
            template = bindings.parse_text(text, "<reduce>", reduction.context)
            inline_call(reduction, template.body.operations[0].operation, last_use=True)


def _legal(reduction: IrOperation) -> str | None:
    """The function that takes the place of a reduction; None if that stays."""
    first, *_ = reduction.regions[0].blocks[0].operations
    sign = _SIGNS.get(first.operation.name)
    rows = shape_and_element_type(str(reduction.results[0].type))
    if len(reduction.results) != 1 or sign is None or rows is None:
        return None
    element = rows[1]
    start = _splat(reduction.operands[1])
    if not isinstance(start, float) or start != sign * _greatest(element):
        return None
    return _LEGAL.substitute(
        full=reduction.operands[0].type,
        element=element,
        rows=reduction.results[0].type,
        infinity=_bits_of_infinity(element, sign),
        operation=first.operation.name,
        dimensions=", ".join(map(str, attributes(reduction)["dimensions"])),
    )


def _splat(value: Any) -> Any:
    """The number that a constant is made of; None if it is no constant of one number."""
    owner = value.owner
    if getattr(owner, "name", None) != "stablehlo.constant":
        return None
    return splat_value(owner)


def _greatest(element: str) -> float:
    """The greatest finite number of a type of floats."""
    import ml_dtypes

    return float(ml_dtypes.finfo(numpy_dtype(element)).max)  # type: ignore[no-untyped-call]


def _bits_of_infinity(element: str, sign: int) -> str:
    import numpy as np

    return f"0x{np.full((), sign * np.inf, numpy_dtype(element)).tobytes()[::-1].hex().upper()}"
