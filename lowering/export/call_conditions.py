"""Conditions of registries on a call in a program: what the first one that does not hold says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from composites.element_types import PYTORCH_NAMES
from composites.errors import LoweringError
from composites.registry.conditions import ConditionError
from composites.registry.model import When
from lowering.stablehlo.dtypes import is_float, shape_and_element_type

_TYPES = SimpleNamespace(**{name: name for name in PYTORCH_NAMES.values()})
"""In place of torch in conditions: types are their names."""

Compile = Callable[[str, Sequence[str]], str]
"""From an expression of `where`, and the names of attributes of the call, to Python."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a call, as conditions see it."""

    shape: tuple[int, ...]
    element_type: str

    @property
    def dtype(self) -> str:
        return PYTORCH_NAMES.get(self.element_type, self.element_type)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return math.prod(self.shape)

    def is_floating_point(self) -> bool:
        return is_float(self.element_type)


def operands_of(types: Sequence[str]) -> list[Operand] | None:
    """Operands of these types; None if the size of one varies."""
    found = [shape_and_element_type(type_) for type_ in types]
    operands = [Operand(*type_) for type_ in found if type_ is not None]
    return operands if len(operands) == len(found) else None


@dataclass(frozen=True, slots=True)
class Conditions:
    """Those of a kernel or of an alternative."""

    when: When
    compile: Compile
    where: str
    """What they belong to, for messages."""

    def unmet(
        self,
        operands: Sequence[Operand],
        names: Mapping[str, Operand | None],
        attributes: Mapping[str, Any],
    ) -> str | None:
        """The first condition that a call does not meet; None if it meets all.

        Args:
            operands: those that the call has.
            names: operands by name; None for one that it does not have.
            attributes: other values by name.

        Raises:
            LoweringError: a condition cannot be evaluated.
        """
        when = self.when
        for name, allowed in when.values:
            if not any(_same(attributes.get(name), value) for value in allowed):
                return f"takes {name} = {_either(allowed)}, not {attributes.get(name)!r}"
        for operand in operands:
            if when.dtypes and operand.element_type not in when.dtypes:
                return f"takes operands of {_either(when.dtypes)}, not {operand.element_type}"
        if when.ranks and (not operands or operands[0].ndim not in when.ranks):
            return f"takes rank {_either(when.ranks)}"
        for text in when.where:
            if not self._holds(text, names, attributes):
                return f"needs {text}"
        return None

    def _holds(
        self, text: str, operands: Mapping[str, Operand | None], attributes: Mapping[str, Any]
    ) -> bool:
        where = f"{self.where}: {text!r}"
        try:
            written = self.compile(text, list(attributes))
            # `compile_condition` lets nothing through that could do more than compute.
            given = {**attributes, **operands, "torch": _TYPES, "len": len}
            return bool(eval(written, {"__builtins__": {}}, given))
        except ConditionError as error:
            raise LoweringError(f"{where}: {error}") from error
        except Exception as error:
            raise LoweringError(f"{where} failed: {type(error).__name__}: {error}") from error


def _same(found: Any, allowed: Any) -> bool:
    """Whether an attribute has a value of the file. Floats are attributes of 32 bits."""
    if isinstance(found, float) and isinstance(allowed, int | float):
        import numpy as np

        return bool(np.float32(found) == np.float32(allowed))
    return bool(found == allowed) and isinstance(found, bool) == isinstance(allowed, bool)


def _either(values: Sequence[Any]) -> str:
    return " or ".join(value if isinstance(value, str) else repr(value) for value in values)
