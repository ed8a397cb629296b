"""The inputs and outputs of emission: types of tensors, and decompositions as HLO."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lowering.emission.dependence import parameters_read


@dataclass(frozen=True, slots=True)
class TensorType:
    """The element type, by its StableHLO name, and the dimensions."""

    element_type: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.element_type}>"


SEED_TYPE = TensorType("i64", ())
"""The type of the random number generator's state."""


@dataclass(frozen=True, slots=True)
class DecompositionHlo:
    """A decomposition as a serialized HLO module, and the relation of its parameters to the
    operands."""

    module: bytes
    parameters: tuple[int | None, ...]
    """For each operand, the number of its parameter; None if the decomposition does not read it."""
    seed: int | None = None
    """The parameter that is the random number generator's state before the call."""
    draws: int = 0
    """The number of times that the decomposition advances the generator's state."""
    numbers: Mapping[int, Any] = field(default_factory=dict)
    """Parameters that are Python numbers, and their values (0-d numpy arrays)."""
    hides_numbers: bool = False
    """True if XLA must not compute with the values of numbers. In stock graphs they are data."""

    @property
    def takes_state(self) -> bool:
        """See `lowering.frontends.protocols.TracedFunction`."""
        return self.seed is not None

    def reads(self) -> tuple[bool, ...]:
        """See `lowering.frontends.protocols.TracedFunction`."""
        read = parameters_read(self.module)
        return tuple(number in read for number in self.parameters)
