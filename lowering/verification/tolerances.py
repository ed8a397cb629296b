"""Tolerances for differences from PyTorch's numbers, by dtype. docs/registry.md has the same table.

The error of a number `a` where `b` is right is |a - b| / (1 + |b|): relative for large numbers,
absolute for small numbers. A gradient that is mathematically zero, and 1e-9 after rounding, has an
error of 1e-9.
"""

TOLERANCES = {"f64": 1e-9, "f32": 2e-5, "f16": 1e-2, "bf16": 5e-2}
"""The tolerances by element type. Other types must be equal."""


def accepted_error(element_type: str) -> float:
    """The largest accepted error; 0 for integers and booleans."""
    complex_parts = {"complex<f32>": "f32", "complex<f64>": "f64"}
    return TOLERANCES.get(complex_parts.get(element_type, element_type), 0.0)
