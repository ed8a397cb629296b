"""The attribute types of a registry: where values come from, and how they are written in MLIR.

To add an attribute type, add one row to `TABLE` and the function that writes its values. Each type
also has arrays, such as `array<i32>` or `array<array<i64>>`, which need no rows. XLA parses
the written text back into the `composite_attributes` dictionary. The text travels as the frontend
attribute `composite.attributes` of an HLO call (xla/hlo/translate/hlo_to_mhlo in the XLA of
torch_xla 2.9).
"""

import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from composites.element_types import BY_NAME as BY_STABLEHLO_NAME
from composites.element_types import NAME_OF_PYTORCH

ArgumentKind = Literal[
    "tensor", "tensors", "optional_tensors", "int", "float", "bool", "string", "scalar", "ints",
    "floats", "bools", "dtype", "other",
]  # fmt: skip
"""The kinds of operator arguments. A `scalar` is a number of any type, `tensors` is a list of
tensors, and `optional_tensors` is a list whose items can be None."""

SEGMENT_SIZES = "operand_segment_sizes"
"""The attribute that says how many operands of a composite belong to each of its arguments."""

_BARE_KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_$.]*", re.ASCII)


class UnsupportedValueError(ValueError):
    """The value cannot be written as an attribute of this type."""


class VaryingValueError(UnsupportedValueError):
    """The value depends on a size that varies in the program."""


def key_of(value: Any) -> tuple[type, Any]:
    """Return a dictionary key for a value. Values are the same attribute if their keys are equal.

    The value itself would not do: 1, 1.0 and True are equal, and so are 0.0 and -0.0, but a NaN
    does not equal itself.
    """
    if type(value) is float and (value == 0 or math.isnan(value)):
        return (float, struct.pack("<d", value))
    return (type(value), value)


def i64(value: Any) -> str:
    return f"{_integer(value, 64)} : i64"


def i32(value: Any) -> str:
    return f"{_integer(value, 32)} : i32"


def f32(value: Any) -> str:
    return f"{_float(value, 'f', 'I')} : f32"


def f64(value: Any) -> str:
    return f"{_float(value, 'd', 'Q')} : f64"


def boolean(value: Any) -> str:
    return "true" if value else "false"


def string(value: Any) -> str:
    """Write a quoted MLIR string. Quotes, backslashes and non-printable bytes become `\\XX`."""
    try:
        raw = str(value).encode()
    except ValueError as error:  # a lone surrogate, or a number of too many digits
        raise UnsupportedValueError(f"{_shown(value)} cannot be written as text") from error
    plain = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:02X}" for byte in raw
    )
    return f'"{plain}"'


def i64_list(values: Iterable[Any]) -> str:
    items = [str(_integer(value, 64)) for value in _items(values)]
    return f"{_dense(items)} : tensor<{len(items)}xi64>"


def f32_list(values: Iterable[Any]) -> str:
    items = [_float(value, "f", "I") for value in _items(values)]
    return f"{_dense(items)} : tensor<{len(items)}xf32>"


def boolean_list(values: Iterable[Any]) -> str:
    items = [boolean(value) for value in _items(values)]
    return f"{_dense(items)} : tensor<{len(items)}xi1>"


def by_value(value: Any) -> str:
    """Write a value by its Python type: bool, int (i64), float (f32), str, or a list of bools, ints
    or floats."""
    if isinstance(value, tuple | list):
        kinds = {type(item) for item in value}
        if kinds == {bool}:
            return boolean_list(value)
        return i64_list(value) if kinds <= {int} else f32_list(value)
    for kind, writer in ((bool, boolean), (int, i64), (float, f32), (str, string)):
        if isinstance(value, kind):
            return writer(value)
    raise UnsupportedValueError(
        f"{_shown(value)} cannot be an attribute: it is neither a number nor text"
    )


def array(item: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a function that writes a list as an MLIR array, and each item with `item`."""

    def write(values: Any) -> str:
        return f"[{', '.join(map(item, _items(values)))}]"

    return write


def mlir_type(value: Any) -> str:
    """Write an element type, which is passed as its StableHLO name."""
    if not isinstance(value, str) or value not in BY_STABLEHLO_NAME:
        raise UnsupportedValueError(f"{_shown(value)} is not an element type such as f32")
    return value


def element_type(dtype: Any) -> str:
    """Return the StableHLO name of a torch dtype, for an attribute of type string or type."""
    written = dtype if isinstance(dtype, str) else _shown(dtype)
    name = NAME_OF_PYTORCH.get(written.removeprefix("torch."))
    if name is None:
        raise UnsupportedValueError(f"{written} is not an element type that an attribute can name")
    return name


def dim(value: int, rank: int) -> int:
    """Count a dimension from the front. A 0-d tensor is treated as a 1-d tensor."""
    return value + max(rank, 1) if value < 0 else value


def dims(values: Iterable[int], rank: int) -> list[int]:
    return [dim(value, rank) for value in values]


def rank(value: Any) -> int:
    """Return the number of dimensions of a tensor, or of the tensors in a list.

    `torch.cat` skips vectors without elements among tensors of any rank.
    """
    if isinstance(value, list | tuple):
        return max((tensor.dim() for tensor in value), default=0)
    return int(value.dim())


def segment_sizes(*arguments: Any) -> str:
    """Write the number of operands of each argument: the length of a list, 1 for a tensor, and -1
    for an absent argument, since an absent list differs from an empty list."""
    return i64_list(
        len(value) if isinstance(value, list | tuple) else -1 if value is None else 1
        for value in arguments
    )


def segment_sizes_of_lists(*arguments: Any) -> str | None:
    """Write the segment sizes of arguments without annotations. None if there are no lists."""
    lists = any(isinstance(value, list | tuple) for value in arguments)
    return segment_sizes(*arguments) if lists else None


def dictionary(attributes: Mapping[str, str | None]) -> str:
    """Build an MLIR dictionary from the texts of attributes. Attributes with None are left out."""
    items = (f"{_key(k)} = {text}" for k, text in sorted(attributes.items()) if text is not None)
    return "{" + ", ".join(items) + "}"


@dataclass(frozen=True, slots=True)
class AttributeType:
    """A type of attributes of a registry."""

    name: str
    write: Callable[[Any], str]
    """Writes the value as MLIR text."""
    default_for: tuple[ArgumentKind, ...] = ()
    """Argument kinds that become this type if the registry names no type. Existing consumers of
    stablehlo.composite were tested with these defaults."""
    also_for: tuple[ArgumentKind, ...] = ()
    """Argument kinds that can become this type if the registry names it."""
    constants: tuple[type, ...] = ()
    """Types of the Python constants that the attribute can hold; for a list, types of the
    items."""
    item: "AttributeType | None" = None
    """The type of an array's items."""

    @property
    def is_list(self) -> bool:
        return self.name.endswith("[]") or self.item is not None

    def takes_argument(self, kind: ArgumentKind) -> bool:
        """Return True if an argument of this kind can become the attribute."""
        if self.item is not None:
            if self.item.is_list:  # neither schemas nor annotations have a kind for nested lists
                return kind == "other"
            item_kind = _ITEM_KINDS.get(kind)
            return item_kind is not None and self.item.takes_argument(item_kind)
        return kind in (*self.default_for, *self.also_for)

    def takes_constant(self, value: Any) -> bool:
        """Return True if a constant of YAML can become the attribute."""
        if not self.is_list:
            return type(value) in self.constants
        if not isinstance(value, list):
            return False
        if self.item is not None:
            return all(map(self.item.takes_constant, value))
        return all(type(item) in self.constants for item in value)


TABLE = (
    AttributeType("i64", i64, ("int",), ("scalar",), (int,)),
    AttributeType("i32", i32, (), ("int", "scalar"), (int,)),
    AttributeType("f32", f32, ("float", "scalar"), ("int",), (int, float)),
    AttributeType("f64", f64, (), ("float", "int", "scalar"), (int, float)),
    AttributeType("bool", boolean, ("bool",), (), (bool,)),
    # A dtype becomes the name of its element type, such as f32.
    AttributeType("string", string, ("string", "dtype"), (), (str,)),
    AttributeType("type", mlir_type, (), ("dtype",), (str,)),  # the element type itself
    AttributeType("i64[]", i64_list, ("ints",), (), (int,)),
    AttributeType("f32[]", f32_list, ("floats",), ("ints",), (int, float)),
    AttributeType("bool[]", boolean_list, ("bools",), (), (bool,)),
)
NAMES = tuple(type_.name for type_ in TABLE)
BY_NAME = {type_.name: type_ for type_ in TABLE}

_ITEM_KINDS: dict[ArgumentKind, ArgumentKind] = {"ints": "int", "floats": "float", "bools": "bool"}
DEEPEST = 3
"""The greatest depth of nested arrays."""


def attribute_type(name: str, depth: int = 0) -> AttributeType | None:
    """Return the attribute type with a name: a row of the table, or `array<…>` of another type."""
    if name in BY_NAME:
        return BY_NAME[name]
    if depth == DEEPEST or not (name.startswith("array<") and name.endswith(">")):
        return None
    item = attribute_type(name[len("array<") : -1], depth + 1)
    return None if item is None else AttributeType(name, array(item.write), item=item)


def types_of_argument(kind: ArgumentKind) -> tuple[str, ...]:
    """Return the attribute types that an argument can become, the default first."""
    defaults = tuple(type_.name for type_ in TABLE if kind in type_.default_for)
    return defaults + tuple(type_.name for type_ in TABLE if kind in type_.also_for)


def types_of_constant(value: Any) -> tuple[str, ...]:
    """Return the attribute types that a constant can have, the default first; empty for a list of
    mixed types."""
    is_list = isinstance(value, list)
    kinds: set[type] = {type(item) for item in value} if is_list else {type(value)}
    if kinds == {int, float}:
        kinds = {float}
    types = [t.name for t in TABLE if t.is_list == is_list and kinds <= set(t.constants)]
    return tuple(types) if len(kinds) == 1 else ()


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else string(name)


def _items(values: Any) -> Iterable[Any]:
    if not isinstance(values, Iterable):
        raise UnsupportedValueError(f"{_shown(values)} is not a list")
    return values


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes integers of at most 4,300 digits
        return f"this {type(value).__name__}"


def _dense(items: list[str]) -> str:
    return f"dense<[{', '.join(items)}]>" if items else "dense<>"


def _check_fixed(value: Any) -> None:
    if hasattr(value, "node"):  # PyTorch's symbols
        raise VaryingValueError(f"{value} depends on a size that varies")


def _integer(value: Any, bits: int) -> int:
    _check_fixed(value)
    try:
        number = int(value)
        exact = number == value
    except (TypeError, ValueError, OverflowError):
        exact = False
    if not exact or not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise UnsupportedValueError(f"{_shown(value)} is not a {bits}-bit integer")
    return number


def _float(value: Any, code: str, bits_code: str) -> str:
    _check_fixed(value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:  # complex, or an int beyond f64
        raise UnsupportedValueError(f"{_shown(value)} is not a real number") from error
    try:
        packed = struct.pack(f"<{code}", number)
    except OverflowError:  # beyond the largest f32
        packed = struct.pack(f"<{code}", math.copysign(math.inf, number))
    if not math.isfinite(struct.unpack(f"<{code}", packed)[0]):
        digits = 2 * len(packed)
        return f"0x{struct.unpack(f'<{bits_code}', packed)[0]:0{digits}X}"
    # `repr` prints enough digits, at most 17, to identify the double exactly. MLIR rounds this
    # decimal to f32 once, so the result is the f32 nearest to the original value.
    mantissa, _, exponent = repr(number).partition("e")
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{mantissa}e{int(exponent):+d}" if exponent else mantissa
