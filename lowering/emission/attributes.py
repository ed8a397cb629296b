"""Python values as MLIR attributes: one function per attribute type of the registry.

The text is what XLA parses back into the `composite_attributes` dictionary (the frontend attribute
`composite.attributes` of an HLO call, xla/hlo/translate/hlo_to_mhlo in the XLA of torch_xla 2.9).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from composites.registry.model import ELEMENT_TYPES

_ELEMENT_TYPE_OF = {name: element for element, name in ELEMENT_TYPES.items()}
_BARE_KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_$.]*", re.ASCII)


class UnsupportedValueError(ValueError):
    """The value cannot be written as an attribute of this type."""


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
    """A quoted MLIR string: everything but printable ASCII is written as `\\XX`."""
    raw = str(value).encode()
    plain = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:02X}" for byte in raw
    )
    return f'"{plain}"'


def i64_list(values: Iterable[Any]) -> str:
    items = [str(_integer(value, 64)) for value in values]
    return f"{_dense(items)} : tensor<{len(items)}xi64>"


def f32_list(values: Iterable[Any]) -> str:
    items = [_float(value, "f", "I") for value in values]
    return f"{_dense(items)} : tensor<{len(items)}xf32>"


def boolean_list(values: Iterable[Any]) -> str:
    items = [boolean(value) for value in values]
    return f"{_dense(items)} : tensor<{len(items)}xi1>"


def by_value(value: Any) -> str:
    """The attribute that a Python value is: bool, i64, f32, string, or a list of one of these."""
    if isinstance(value, tuple | list):
        kinds = {type(item) for item in value}
        if kinds == {bool}:
            return boolean_list(value)
        return i64_list(value) if kinds <= {int} else f32_list(value)
    for kind, writer in ((bool, boolean), (int, i64), (float, f32), (str, string)):
        if isinstance(value, kind):
            return writer(value)
    raise UnsupportedValueError(f"{value!r} is no attribute: neither a number nor text")


def element_type(dtype: Any) -> str:
    """The name that StableHLO has for a torch dtype, for an attribute of type string."""
    name = str(dtype).removeprefix("torch.")
    if name not in _ELEMENT_TYPE_OF:
        raise UnsupportedValueError(f"{dtype} has no element type of a composite")
    return _ELEMENT_TYPE_OF[name]


def dim(value: int, rank: int) -> int:
    """A dimension counted from the front; a 0-d tensor counts as having one dimension."""
    return value + max(rank, 1) if value < 0 else value


def dims(values: Iterable[int], rank: int) -> list[int]:
    return [dim(value, rank) for value in values]


def dictionary(attributes: Mapping[str, str | None]) -> str:
    """An MLIR dictionary of attributes as written by the functions above; None is left out."""
    items = (f"{_key(k)} = {text}" for k, text in sorted(attributes.items()) if text is not None)
    return "{" + ", ".join(items) + "}"


# The writer of each attribute type of composites.registry.model.
WRITERS: dict[str, Callable[[Any], str]] = {
    "i64": i64,
    "i32": i32,
    "f32": f32,
    "f64": f64,
    "bool": boolean,
    "string": string,
    "i64[]": i64_list,
    "f32[]": f32_list,
    "bool[]": boolean_list,
}


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else string(name)


def _dense(items: list[str]) -> str:
    return f"dense<[{', '.join(items)}]>" if items else "dense<>"


def _integer(value: Any, bits: int) -> int:
    try:
        number = int(value)
        exact = number == value
    except (TypeError, ValueError, OverflowError):
        exact = False
    if not exact or not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise UnsupportedValueError(f"{value!r} is not an integer of {bits} bits")
    return number


def _float(value: Any, code: str, bits_code: str) -> str:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:  # complex, or an int beyond f64
        raise UnsupportedValueError(f"{value!r} is not a real number") from error
    try:
        packed = struct.pack(f"<{code}", number)
    except OverflowError:  # beyond the largest f32
        packed = struct.pack(f"<{code}", math.copysign(math.inf, number))
    if not math.isfinite(struct.unpack(f"<{code}", packed)[0]):
        digits = 2 * len(packed)
        return f"0x{struct.unpack(f'<{bits_code}', packed)[0]:0{digits}X}"
    # 17 significant digits name every double; MLIR rounds the decimal once more to f32, which
    # gives the nearest f32 of the original, because the printed double is the original itself.
    mantissa, _, exponent = repr(number).partition("e")
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{mantissa}e{int(exponent):+d}" if exponent else mantissa
