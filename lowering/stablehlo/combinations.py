"""The functions of reductions and scatters: their operations, and the neutral elements."""

from math import inf
from typing import Any

from composites.lazy_modules import np

from .dtypes import numpy_dtype
from .ir_types import IrOperation

IN_JAX = {
    "add": "add", "and": "bitwise_and", "maximum": "max", "minimum": "min", "multiply": "mul",
    "or": "bitwise_or",
}  # fmt: skip
"""JAX's names of operations that combine numbers in any order."""
_FLOATS = {"add": -0.0, "multiply": 1.0, "maximum": -inf, "minimum": inf}
"""The neutral elements of floats, also for the sign of zero: -0.0 + -0.0 is -0.0."""


def only_operation(region: Any) -> IrOperation | None:
    """The operation of a region that returns one operation of its two arguments; None for other
    regions."""
    block = region.blocks[0]
    *operations, terminator = (operation.operation for operation in block.operations)
    is_plain = (
        len(operations) == 1
        and list(terminator.operands) == list(operations[0].results)
        and {*operations[0].operands} == {*block.arguments}
    )
    return operations[0] if is_plain else None


def combination(region: Any) -> str:
    """The name of a region's `only_operation` without the dialect, such as `add`, or empty."""
    operation = only_operation(region)
    return "" if operation is None else str(operation.name).removeprefix("stablehlo.")


def neutral_element(operation: str, element: str) -> Any:
    """The neutral element of an operation, as a NumPy number; None if there is none.

    Args:
        operation: the name without its dialect, such as `add`.
        element: an element type, such as `bf16`.
    """
    dtype = numpy_dtype(element)
    if element == "i1":
        numbers: dict[str, Any] = {"or": 0, "maximum": 0, "and": 1, "minimum": 1}
    elif element.startswith(("i", "ui")):
        limits = np.iinfo(dtype)
        # All bits are 1 in the number -1 of signed types, and in the largest of unsigned types.
        all_bits = -1 if limits.min < 0 else limits.max
        numbers = {"add": 0, "or": 0, "multiply": 1, "and": all_bits}
        numbers |= {"maximum": limits.min, "minimum": limits.max}
    else:
        numbers = {} if "complex" in element else _FLOATS
    return np.full((), numbers[operation], dtype)[()] if operation in numbers else None
