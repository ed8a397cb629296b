"""What flows into and out of emission: types of tensors, and decompositions as HLO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type as StableHLO names it, and dimensions."""

    element_type: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.element_type}>"


SEED_TYPE = TensorType("i64", ())
"""The type of the state of the generator of random numbers."""


@dataclass(frozen=True, slots=True)
class DecompositionHlo:
    """A decomposition as a serialized HLO module, and how its parameters meet the operands."""

    module: bytes
    parameters: tuple[int | None, ...]
    """For each operand the parameter that is it; None where the decomposition does not read it."""
    seed: int | None = None
    """The parameter that is the state of the generator of random numbers before the call."""
    draws: int = 0
    """How often the decomposition advances that state."""
    numbers: Mapping[int, Any] = field(default_factory=dict)
    """Parameters that are Python numbers, and their values (0-d numpy arrays): data in stock's
    graphs, so that XLA does not know them."""
