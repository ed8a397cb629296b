"""Composite attributes in the forms that they take outside the module.

- `to_python`: plain Python values, for reports and for keyword arguments of JAX functions.
- `to_ffi`: the MLIR attributes that XLA's typed FFI can decode from a `backend_config`.
"""

from typing import Any

from composites.frozen import frozen
from composites.lazy_modules import np

from .bindings import dictionary_items, ir, list_elements, string_value
from .errors import AttributeConversionError
from .ir_types import IrAttribute

# Element types whose dense attributes can be read as a buffer. Other types (bf16) abort the process
# in jaxlib 0.7.1, so only these are read.
_READABLE_ELEMENTS = frozenset(
    [f"{sign}{width}" for sign in ("i", "ui", "si") for width in (8, 16, 32, 64)]
    + ["i1", "f16", "f32", "f64"]
)

# The largest depth of nested lists and dictionaries. Python limits recursion.
_DEEPEST = 100

# Dense arrays that XLA's FFI decodes, by element type. Booleans are passed as bytes.
_FFI_ARRAYS = {t: f"Dense{t.upper()}ArrayAttr" for t in ("i8", "i16", "i32", "i64", "f32", "f64")}
_FFI_ARRAYS["i1"] = _FFI_ARRAYS["i8"]


def to_python(attribute: IrAttribute, depth: int = 0) -> Any:
    """The Python value of an attribute, or its text if there is no such value in Python.

    | attribute                  | Python                                  |
    |----------------------------|-----------------------------------------|
    | `true`, `1 : i64`, `1.5`   | bool, int, float                        |
    | `"tanh"`, `unit`           | str, True                               |
    | `dense<..>`, `array<..>`   | nested tuples (a scalar for rank 0)     |
    | `[..]`, `{..}`             | tuple, dict                             |
    | `f32`, `@f`, anything else | its text: `"f32"`, `"@f"`               |

    Raises:
      AttributeConversionError: a string is not UTF-8, or lists and dictionaries are nested more
        than 100 deep. `depth` is the depth of `attribute` itself.
    """
    kinds = ir()
    if depth > _DEEPEST:
        raise AttributeConversionError(
            f"lists and dictionaries of attributes are nested more than {_DEEPEST} deep"
        )
    if isinstance(attribute, kinds.StringAttr):
        return string_value(attribute)
    if isinstance(attribute, kinds.BoolAttr | kinds.IntegerAttr | kinds.FloatAttr):
        return attribute.value
    if isinstance(attribute, kinds.UnitAttr):
        return True
    if isinstance(attribute, kinds.ArrayAttr):
        return tuple(to_python(entry, depth + 1) for entry in list_elements(attribute))
    if isinstance(attribute, kinds.DictAttr):
        entries = dictionary_items(attribute)
        return {name: to_python(entry, depth + 1) for name, entry in entries.items()}
    if _is_dense_array(attribute):
        return tuple(attribute)
    if isinstance(attribute, kinds.DenseElementsAttr) and _is_readable(attribute):
        return frozen(_array(attribute).tolist())
    return str(attribute)


def to_ffi(attribute: IrAttribute, where: str, depth: int = 0) -> IrAttribute:
    """The form of an attribute that XLA's typed FFI decodes. Call it inside the context.

    Scalars and strings are unchanged. Lists become one-dimensional dense arrays (bool as i8),
    half-precision floats become f32, and types become their names.

    Raises:
        AttributeConversionError: the FFI has no form for the attribute, or its dictionaries are
            nested more than 100 deep; the message names `where`.
    """
    kinds = ir()
    if isinstance(attribute, kinds.BoolAttr | kinds.StringAttr | kinds.IntegerAttr):
        return attribute
    if isinstance(attribute, kinds.FloatAttr):
        if str(attribute.type) in ("f32", "f64"):
            return attribute
        return kinds.FloatAttr.get(kinds.F32Type.get(), attribute.value)
    if isinstance(attribute, kinds.TypeAttr):
        return kinds.StringAttr.get(str(attribute))
    if isinstance(attribute, kinds.DictAttr):
        if depth > _DEEPEST:
            raise AttributeConversionError(
                f"{where[:100]}…: dictionaries are nested more than {_DEEPEST} deep"
            )
        entries = dictionary_items(attribute)
        return kinds.DictAttr.get(
            {k: to_ffi(v, f"{where}.{k}", depth + 1) for k, v in entries.items()}
        )
    array = _ffi_array(attribute)
    if array is None:
        raise AttributeConversionError(
            f"{where} = {attribute}: XLA's typed FFI takes booleans, integers, floats, strings, "
            "and flat lists of one kind of number; flatten this attribute before to_custom_call, "
            "or leave it out (ignored=, --drop-attribute)"
        )
    return array


def _ffi_array(attribute: IrAttribute) -> IrAttribute | None:
    """The dense array for a flat list of numbers of one type; None for another attribute."""
    kinds = ir()
    if _is_dense_array(attribute) and not isinstance(attribute, kinds.DenseBoolArrayAttr):
        return attribute
    element, values = _flat_numbers(attribute)
    name = _FFI_ARRAYS.get(element)
    if name is None:
        return None
    return getattr(kinds, name).get([int(v) if element == "i1" else v for v in values])


def _flat_numbers(attribute: IrAttribute) -> tuple[str, list[Any]]:
    """The element type and the numbers of a flat list; an empty type for another attribute."""
    kinds = ir()
    if isinstance(attribute, kinds.DenseBoolArrayAttr):
        return "i1", list(attribute)
    if isinstance(attribute, kinds.ArrayAttr):
        entries = list_elements(attribute)
        scalars = kinds.BoolAttr | kinds.IntegerAttr | kinds.FloatAttr
        types = {str(e.type) if isinstance(e, scalars) else "" for e in entries} or {"i64"}
        is_flat = len(types) == 1 and "" not in types
        return (types.pop(), [entry.value for entry in entries]) if is_flat else ("", [])
    if isinstance(attribute, kinds.DenseElementsAttr) and _is_readable(attribute):
        values = _array(attribute)
        return (str(attribute.type.element_type), values.tolist()) if values.ndim == 1 else ("", [])
    return "", []


def _is_dense_array(attribute: IrAttribute) -> bool:
    name = type(attribute).__name__
    return name.startswith("Dense") and name.endswith("ArrayAttr")


def _is_readable(attribute: IrAttribute) -> bool:
    return str(attribute.type.element_type) in _READABLE_ELEMENTS


def _array(attribute: IrAttribute) -> Any:
    return np.array(attribute).reshape(attribute.type.shape)
