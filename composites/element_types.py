"""The element types of tensors. Every other table of element types is derived from this one.

Each row gives the names of a type in StableHLO, numpy, PyTorch, XLA's protobuf messages and
safetensors. The numbers and literal fields come from xla/xla_data.proto (`PrimitiveType`,
`LiteralProto`). The names and formats of floats come from MLIR and ml_dtypes.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """The precision and range of a floating-point type."""

    significand: int
    """Number of bits, including the implicit leading one."""
    smallest: int
    """Exponent of the smallest positive value."""
    largest: int
    """Exponent of the largest finite value."""
    complete: bool = False
    """True if the type has both infinities, NaN and both zeros."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type."""

    name: str
    """The name in StableHLO, such as `bf16`."""
    numpy: str
    """The name in numpy or ml_dtypes. PyTorch uses the same name if it has the type."""
    pytorch: bool = False
    """True if tensors of a program can have the type (torch_xla's cannot have f8E8M0FNU)."""
    hlo: int | None = None
    """The number in `xla.PrimitiveType`."""
    literal: str | None = None
    """The field of `xla.LiteralProto` with the values; None for types of less than a byte,
    which this project never writes."""
    format: FloatFormat | None = None
    """The format of a float; None for types that are not floats, and for f8E8M0FNU."""
    safetensors: str | None = None
    """The name in files of safetensors; None for types that our checkpoints do not use."""


def _float(significand: int, smallest: int, largest: int) -> FloatFormat:
    return FloatFormat(significand, smallest, largest, complete=True)


TABLE = (
    ElementType("f64", "float64", True, 12, "f64s", _float(53, -1074, 1023), safetensors="F64"),
    ElementType("f32", "float32", True, 11, "f32s", _float(24, -149, 127), safetensors="F32"),
    ElementType("f16", "float16", True, 10, "f16s", _float(11, -24, 15), safetensors="F16"),
    ElementType("bf16", "bfloat16", True, 16, "bf16s", _float(8, -133, 127), safetensors="BF16"),
    ElementType("i64", "int64", True, 5, "s64s", safetensors="I64"),
    ElementType("i32", "int32", True, 4, "s32s", safetensors="I32"),
    ElementType("i16", "int16", True, 3, "s16s", safetensors="I16"),
    ElementType("i8", "int8", True, 2, "s8s", safetensors="I8"),
    ElementType("ui8", "uint8", True, 6, "u8s", safetensors="U8"),
    ElementType("i1", "bool", True, 1, "preds", safetensors="BOOL"),
    ElementType("complex<f32>", "complex64", True, 15, "c64s", safetensors="C64"),
    ElementType("complex<f64>", "complex128", True, 18, "c128s"),
    ElementType("ui16", "uint16", True, 7, "u16s", safetensors="U16"),
    ElementType("ui32", "uint32", True, 8, "u32s", safetensors="U32"),
    ElementType("ui64", "uint64", True, 9, "u64s", safetensors="U64"),
    ElementType(
        "f8E5M2", "float8_e5m2", True, 19, "f8e5m2s", FloatFormat(3, -16, 15), safetensors="F8_E5M2"
    ),
    ElementType(
        "f8E4M3FN",
        "float8_e4m3fn",
        True,
        20,
        "f8e4m3fns",
        FloatFormat(4, -9, 8),
        safetensors="F8_E4M3",
    ),
    ElementType("f8E8M0FNU", "float8_e8m0fnu", True, 33, "f8e8m0fnus", safetensors="F8_E8M0"),
    ElementType("i4", "int4", hlo=21),
    ElementType("ui4", "uint4", hlo=22),
    ElementType("f8E3M4", "float8_e3m4", False, 29, "f8e3m4s", FloatFormat(5, -6, 3)),
    ElementType("f8E4M3", "float8_e4m3", False, 28, "f8e4m3s", FloatFormat(4, -9, 7)),
    ElementType(
        "f8E4M3B11FNUZ", "float8_e4m3b11fnuz", False, 23, "f8e4m3b11fnuzs", FloatFormat(4, -13, 4)
    ),
    ElementType("f8E4M3FNUZ", "float8_e4m3fnuz", False, 25, "f8e4m3fnuzs", FloatFormat(4, -10, 7)),
    ElementType("f8E5M2FNUZ", "float8_e5m2fnuz", False, 24, "f8e5m2fnuzs", FloatFormat(3, -17, 15)),
    ElementType("f4E2M1FN", "float4_e2m1fn", hlo=32, format=FloatFormat(2, -1, 2)),
)
"""All element types. Types that a registry may name come first."""

BY_NAME = {type_.name: type_ for type_ in TABLE}
"""The element types by their StableHLO names."""

PYTORCH_NAMES = {type_.name: type_.numpy for type_ in TABLE if type_.pytorch}
"""PyTorch names by StableHLO name, for the types that tensors of a program can have."""

REGISTRY_TYPES = tuple(PYTORCH_NAMES)
"""The types that a registry file may name in `when: {dtypes: …}`."""

NAME_OF_PYTORCH = {pytorch: name for name, pytorch in PYTORCH_NAMES.items()}
"""StableHLO names by PyTorch name."""

NAME_OF_SAFETENSORS = {type_.safetensors: type_.name for type_ in TABLE if type_.safetensors}
"""StableHLO names by safetensors name."""
