"""The element types of tensors, in one table from which all other such tables are derived.

Each row gives the names of a type in StableHLO, numpy, PyTorch and XLA's protobuf messages. The
numbers and literal fields come from xla/xla_data.proto (`PrimitiveType`, `LiteralProto`). The names
and formats of floats come from MLIR and ml_dtypes.
"""

from __future__ import annotations

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
    """Whether it has both infinities, NaN and both zeros."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type."""

    name: str
    """The name in StableHLO, such as `bf16`."""
    numpy: str
    """The name in numpy or ml_dtypes. PyTorch uses the same name if it has the type."""
    pytorch: bool = False
    """Whether tensors of torch_xla can have it."""
    hlo: int | None = None
    """The number in `xla.PrimitiveType`; None if this project never writes the type."""
    literal: str | None = None
    """The field of `xla.LiteralProto` that holds its values."""
    format: FloatFormat | None = None
    """None for types that are not floats, and for f8E8M0FNU."""

    @property
    def is_complex(self) -> bool:
        return self.name.startswith("complex")


def _float(significand: int, smallest: int, largest: int) -> FloatFormat:
    return FloatFormat(significand, smallest, largest, complete=True)


TABLE = (
    ElementType("f64", "float64", True, 12, "f64s", _float(53, -1074, 1023)),
    ElementType("f32", "float32", True, 11, "f32s", _float(24, -149, 127)),
    ElementType("f16", "float16", True, 10, "f16s", _float(11, -24, 15)),
    ElementType("bf16", "bfloat16", True, 16, "bf16s", _float(8, -133, 127)),
    ElementType("i64", "int64", True, 5, "s64s"),
    ElementType("i32", "int32", True, 4, "s32s"),
    ElementType("i16", "int16", True, 3, "s16s"),
    ElementType("i8", "int8", True, 2, "s8s"),
    ElementType("ui8", "uint8", True, 6, "u8s"),
    ElementType("i1", "bool", True, 1, "preds"),
    ElementType("complex<f32>", "complex64", True, 15, "c64s"),
    ElementType("complex<f64>", "complex128", True, 18, "c128s"),
    ElementType("ui16", "uint16", hlo=7, literal="u16s"),
    ElementType("ui32", "uint32", hlo=8, literal="u32s"),
    ElementType("ui64", "uint64", hlo=9, literal="u64s"),
    ElementType("i4", "int4"),
    ElementType("ui4", "uint4"),
    ElementType("f8E5M2", "float8_e5m2", hlo=19, format=FloatFormat(3, -16, 15)),
    ElementType("f8E4M3FN", "float8_e4m3fn", hlo=20, format=FloatFormat(4, -9, 8)),
    ElementType("f8E3M4", "float8_e3m4", format=FloatFormat(5, -6, 3)),
    ElementType("f8E4M3", "float8_e4m3", format=FloatFormat(4, -9, 7)),
    ElementType("f8E4M3B11FNUZ", "float8_e4m3b11fnuz", format=FloatFormat(4, -13, 4)),
    ElementType("f8E4M3FNUZ", "float8_e4m3fnuz", format=FloatFormat(4, -10, 7)),
    ElementType("f8E5M2FNUZ", "float8_e5m2fnuz", format=FloatFormat(3, -17, 15)),
    ElementType("f8E8M0FNU", "float8_e8m0fnu"),
    ElementType("f4E2M1FN", "float4_e2m1fn", format=FloatFormat(2, -1, 2)),
)
"""Every element type. Those that a registry may name come first."""

BY_NAME = {type_.name: type_ for type_ in TABLE}
"""The element types by their StableHLO names."""

PYTORCH_NAMES = {type_.name: type_.numpy for type_ in TABLE if type_.pytorch}
"""From StableHLO names to PyTorch names, for the types that torch_xla's tensors can have."""

REGISTRY_TYPES = tuple(name for name in PYTORCH_NAMES if not BY_NAME[name].is_complex)
"""The types that a registry file may name in `when: {dtypes: …}`."""

NAME_OF_PYTORCH = {pytorch: name for name, pytorch in PYTORCH_NAMES.items()}
"""From PyTorch names to StableHLO names."""
