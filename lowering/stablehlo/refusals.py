"""Operations that consumers of StableHLO refuse, observed with the versions that `targets` names.

The passes of a target run first. Operations that a pass replaces are listed only if the pass may
keep some of them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from .attributes import to_python
from .bindings import attributes, defining_operation, find_operations, operator_name, source_line
from .combinations import combination
from .composites import composite_name
from .errors import RefusedOperationError
from .ir_types import IrModule, IrOperation
from .passes.convolutions import Convolution
from .passes.expand_sorts import is_top_k
from .scatters import updates_rows
from .symbols import COMPOSITE, enclosing_function, target

Refuses = Callable[[IrOperation], bool | str]
"""A predicate of refused operations. A returned string follows the name in an error."""
Refused = Mapping[str, Refuses]
"""The predicates of refused operations, by name of the operation."""


def refuse(module: IrModule, title: str, refused: Refused, native: Collection[str] = ()) -> None:
    """Fail if the module has operations that a consumer does not take.

    Operations on constants are left out, because consumers compute them, and so are the
    decompositions of composites that the consumer has operators for.

    Args:
        title: the consumer's name.
        native: the prefixes of the names of composites that the consumer has operators for.

    Raises:
        RefusedOperationError: the module has such operations. The message names the first one, its
            function and composite, and the operator and the line of Python that it comes from, if
            the module has them.
    """
    refusals = list(_refusals(module, title, refused, native))
    if refusals:
        first, *further = refusals
        first.others = tuple(further)
        raise first


def _refusals(
    module: IrModule, title: str, refused: Refused, native: Collection[str]
) -> Iterator[RefusedOperationError]:
    owners = {target(c): c for c in find_operations(module.operation, COMPOSITE)}
    for operation in find_operations(module.operation, *refused):
        function = enclosing_function(operation)
        owner = owners.get(function)
        composite = "" if owner is None else composite_name(owner)
        is_native = composite.startswith(tuple(native)) if native else False
        reason = refused[operation.name](operation)
        if is_native or not reason or _is_constant(operation):
            continue
        where = f"@{function}"
        where += f", of composite {composite}" if composite else ""
        source = _source(operation, owners)
        written = _written(operation) + (f" {reason}" if isinstance(reason, str) else "")
        yield RefusedOperationError(title, written, where, source)


def _source(operation: IrOperation, owners: Mapping[str, IrOperation]) -> str:
    """The source of an operation or its composite: `, from aten::sort, at model.py:12`."""
    within: IrOperation | None = operation
    while within is not None:
        operator = operator_name(within.location)
        line = source_line(within.location)
        if operator or line:
            return (f", from {operator}" if operator else "") + (f", at {line}" if line else "")
        within = owners.get(enclosing_function(within))
    return ""


def always(operation: IrOperation) -> bool:
    """Refuse every operation."""
    return True


def element_in(*elements: str) -> Refuses:
    """A predicate that refuses operations whose last operand has one of the element types."""
    return lambda operation: last_element_type(operation) in elements


def last_element_type(operation: IrOperation) -> str:
    """The element type of the last operand; empty if there are no operands."""
    if not operation.operands:
        return ""
    return str(getattr(operation.operands[len(operation.operands) - 1].type, "element_type", ""))


def _combines(scatter: IrOperation) -> bool:
    """Return whether a scatter does more than replace rows."""
    return _is_of_parts(scatter) or len(scatter.regions[0].blocks[0].operations) > 1


def _is_of_parts(scatter: IrOperation) -> bool:
    """Return whether a scatter has several operands, or its updates are parts of rows."""
    return len(scatter.results) > 1 or not updates_rows(scatter)


def _is_general(reduction: IrOperation) -> bool | str:
    """Return whether a reduction of one operand is not a sum, product, maximum or minimum, or that
    of two operands is over single elements. LiteRT has others of two operands (ARG_MAX)."""
    sizes = [reduction.operands[0].type.shape[dim] for dim in attributes(reduction)["dimensions"]]
    if len(reduction.results) > 1:
        return "over single elements" if {*sizes} == {1} else ""
    return combination(reduction.regions[0]) not in ("add", "multiply", "maximum", "minimum")


def _is_odd_fourier(transform: IrOperation) -> bool:
    """Return whether a length of a Fourier transform is not a power of two."""
    return any(length & (length - 1) for length in to_python(attributes(transform)["fft_length"]))


def _is_other_than_rfft(transform: IrOperation) -> bool:
    """Return whether a Fourier transform is not a forward transform of reals over powers of two."""
    kind = str(attributes(transform)["fft_type"])
    return "IRFFT" in kind or "RFFT" not in kind or _is_odd_fourier(transform)


def _is_odd_window(reduction: IrOperation) -> bool | str:
    """Return the reason to refuse windows of a dilated operand, or True for windows of several
    operands: LiteRT computes other numbers for windows without elements."""
    spread = attributes(reduction).get("base_dilations", [])
    return len(reduction.results) > 1 or (
        "with base dilations" if max(spread, default=1) > 1 else ""
    )


def _is_refused_convolution(convolution: IrOperation) -> bool | str:
    if last_element_type(convolution) in _HALF:
        return True
    numbers = Convolution.parse(convolution)
    is_in_groups = len(numbers.kernel) > 2 and numbers.feature_groups > 1
    return "in three dimensions, in groups" if is_in_groups else ""


def _is_apart(reverse: IrOperation) -> str:
    dims = sorted(attributes(reverse)["dimensions"])
    are_apart = bool(dims) and dims[-1] - dims[0] >= len(dims)
    return "along dimensions that are not next to each other" if are_apart else ""


def _is_constant(operation: IrOperation) -> bool:
    """Return whether all operands of an operation are constants. Loops read other values too."""
    if operation.name == "stablehlo.while":
        return False
    owners = [defining_operation(operand) for operand in operation.operands]
    return bool(owners) and all(o is not None and o.name == "stablehlo.constant" for o in owners)


def _written(operation: IrOperation) -> str:
    """The text of an operation: `stablehlo.custom_call @kernel`, or `stablehlo.add of f64`."""
    called = attributes(operation).get("call_target_name")
    if called is not None:
        return f"{operation.name} @{called.value}"
    element = last_element_type(operation)
    return f"{operation.name} of {element}" if element else str(operation.name)


_UNSIGNED = ("ui8", "ui16", "ui32", "ui64")
_INTEGERS = ("i8", "i16", "i32", "i64", *_UNSIGNED)
_WIDE = ("f64", "bf16")
_HALF = (*_WIDE, "f16")
_BYTES = ("i8", "ui8")


def _alike(names: str, refuses: Refuses) -> Refused:
    """Operations of StableHLO with the same predicate."""
    return {f"stablehlo.{name}": refuses for name in names.split()}


IREE: Refused = {
    **_alike("all_reduce cholesky custom_call select_and_scatter triangular_solve", always),
    "stablehlo.fft": _is_odd_fourier,
    "stablehlo.reverse": element_in("ui8"),
    "stablehlo.scatter": _is_of_parts,
}
LITERT: Refused = {
    **_alike("all_reduce cholesky complex count_leading_zeros custom_call popcnt", always),
    **_alike("reduce_precision round_nearest_afz shift_left triangular_solve while", always),
    **_alike("cbrt ceil floor is_finite log log_plus_one logistic", element_in(*_HALF)),
    **_alike("round_nearest_even rsqrt sqrt", element_in(*_HALF)),
    **_alike("cosine exponential exponential_minus_one sine tan tanh", element_in(*_WIDE)),
    **_alike("add multiply", element_in(*_WIDE, *_BYTES)),
    **_alike("negate subtract", element_in(*_WIDE, *_BYTES, "ui32")),
    **_alike("and or", element_in(*_INTEGERS)),
    "stablehlo.abs": element_in(*_HALF, "i8", "i64"),
    "stablehlo.compare": element_in(*_HALF, "i8"),
    "stablehlo.convolution": _is_refused_convolution,
    "stablehlo.divide": element_in(*_WIDE, *_BYTES, "i16", "i64", *_UNSIGNED),
    "stablehlo.dot_general": element_in(*_WIDE, "ui8", "i32", "ui32", "i64"),
    "stablehlo.fft": _is_other_than_rfft,
    "stablehlo.maximum": element_in(*_WIDE, *_BYTES, "ui32", "i1"),
    "stablehlo.minimum": element_in(*_HALF, *_BYTES, "ui32", "i1"),
    "stablehlo.power": element_in(*_HALF, *_BYTES, "ui32", "i64"),
    "stablehlo.reduce": _is_general,
    "stablehlo.reduce_window": _is_odd_window,
    "stablehlo.reverse": _is_apart,
    "stablehlo.scatter": _combines,
    "stablehlo.select": element_in(*_HALF, "ui8"),
    # LiteRT shifts other types according to their signedness.
    "stablehlo.shift_right_arithmetic": element_in("i64", *_UNSIGNED),
    "stablehlo.shift_right_logical": element_in("i8", "i16", "i32", "i64", "ui64"),
    "stablehlo.sign": element_in("i64"),
    "stablehlo.sort": lambda sort: not is_top_k(sort),
    "stablehlo.xor": element_in("i1", "i64"),
}
