"""Conditions of kernels and entries, evaluated for a call.

Calls have three sources: PyTorch's dispatcher (`lowering.dispatch.definition`), composites in
StableHLO for which kernels of a platform are tried (`lowering.export.listed_kernels`), and
composites in StableHLO for which decompositions to choose are tried
(`lowering.export.listed_alternatives`). Each source describes a call as a `DescribedCall`. This
module does not import torch.
"""

import ctypes
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import SimpleNamespace
from typing import Any

from composites.element_types import PYTORCH_NAMES
from composites.errors import LoweringError, UnsupportedCallError, did_you_mean
from composites.registry.conditions import ConditionError, compile_condition, names_in
from composites.registry.model import Tensor, When

TYPES = SimpleNamespace(**{pytorch: name for name, pytorch in PYTORCH_NAMES.items()})
"""The namespace `torch` of conditions. Each type in it is a string: its name in StableHLO."""


@dataclass(frozen=True, slots=True)
class DescribedCall:
    """A call in the form in which conditions of kernels read it."""

    operands: Sequence[Tensor | Sequence[Tensor | None]]
    """The operands of the call, in the composite's order. An operand may be a list."""
    values: Mapping[str, Any]
    """Arguments or attributes, and operands, by their names in conditions, which may be paths such
    as `self.weight`. An operand or attribute that the call does not have is None. Lists are
    tuples, and a dtype is its name in StableHLO, as in attributes of composites."""

    def unmet(self, when: When, owner: str, *, exact: bool = False) -> str | None:
        """Describe the first condition that the call does not meet; None if it meets all.

        Args:
            owner: the kernel or entry that has the conditions, and its location, for messages.
            exact: compare values as Python does, which torch.compile can trace. False for kernels,
                whose floats may come from attributes with 32 bits.

        Raises:
            LoweringError: a condition cannot be evaluated for this call.
            UnsupportedCallError: a condition depends on a size that varies.
        """
        for name, allowed in when.values:
            value = self._evaluated(name, owner, self._named)
            if not (value in allowed if exact else any(_same(value, v) for v in allowed)):
                return f"takes {name} = {_either(allowed)}, not {value!r}"
        operands = [_listed(operand) for operand in self.operands]
        for operand in chain(*operands):
            if when.dtypes and operand.element_type not in when.dtypes:
                return f"takes operands of {_either(when.dtypes)}, not {operand.element_type}"
        # In a list, the condition of an entry is on each tensor, and of a kernel on the first.
        first = operands[0] if exact and operands else list(chain(*operands))[:1]
        has_none = not (operands if exact else first)
        wrong = [str(o.ndim) for o in first if o.ndim not in when.ranks]
        if when.ranks and (has_none or wrong):
            actual = f", not {wrong[0]}" if wrong else ""
            return f"takes rank {_either(when.ranks)}{actual}"
        for text in when.where:
            if not self._evaluated(text, owner, self._holds):
                return f"needs {text}"
        return None

    def _evaluated(self, condition: str, owner: str, evaluate: Callable[[str], Any]) -> Any:
        try:
            return evaluate(condition)
        except UnsupportedCallError:  # the condition depends on a size that varies
            raise
        except Exception as error:  # also if a condition does not fit a Python function
            types = ", ".join(map(str, chain(*map(_listed, self.operands))))
            reason, hint = f"{type(error).__name__}: {error}", ""
            if not isinstance(error, ConditionError):
                absent = [n for n in sorted(names_in(condition)) if self.values.get(n, n) is None]
                reason += "".join(f"; {name} is None" for name in absent)
                hint = "; begin it with a condition under which it can be, as in"
                hint += " `self.dim() == 2 and …`"
            raise LoweringError(
                f"{owner}: when: {condition!r} cannot be evaluated for {types} ({reason}){hint}"
            ) from error

    def _named(self, path: str) -> Any:
        """Return the value that a condition names, or an attribute of the value."""
        if path in self.values:
            return self.values[path]
        root, _, attribute = path.partition(".")
        if root not in self.values:
            names = list(self.values)
            hint = f"{did_you_mean(root, names)} (known: {', '.join(names)})"
            raise ConditionError(f"there is no argument {root!r}{hint}")
        return getattr(self.values[root], attribute)

    def _holds(self, text: str) -> bool:
        written = compile_condition(text, self.values)
        # `compile_condition` rejects everything that could do more than compute.
        values = {name.replace(".", "_"): value for name, value in self.values.items()}
        return bool(eval(written, {**values, "torch": TYPES, "len": len, "__builtins__": {}}))


def _compared_in_32_bits(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def method(number: float, other: Any) -> bool:
        rounded = ctypes.c_float(other).value if isinstance(other, int | float) else other
        return compare(float(number), rounded)

    return method


class _Float32(float):
    """A number of 32 bits. The other number of a comparison is rounded to 32 bits."""

    __eq__ = _compared_in_32_bits(operator.eq)
    __ne__ = _compared_in_32_bits(operator.ne)
    __lt__ = _compared_in_32_bits(operator.lt)
    __le__ = _compared_in_32_bits(operator.le)
    __gt__ = _compared_in_32_bits(operator.gt)
    __ge__ = _compared_in_32_bits(operator.ge)
    __hash__ = float.__hash__


def comparable(value: Any) -> Any:
    """Return attributes, or the value of one, so that conditions can compare them with the numbers
    that a registry file writes: `alpha == 0.3` holds for the number of 32 bits next to 0.3."""
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(comparable, value))
    if isinstance(value, float) and ctypes.c_float(value).value == value:
        return _Float32(value)
    return value


def _same(value: Any, allowed: Any) -> bool:
    """Return True if a value equals a value of a file. Floats are attributes of 32 bits."""
    if isinstance(value, float) and isinstance(allowed, int | float):
        return ctypes.c_float(value).value == ctypes.c_float(allowed).value
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)


def _listed(operand: Tensor | Sequence[Tensor | None]) -> Sequence[Tensor]:
    """Return the tensors of an operand. Absent tensors of a list are left out."""
    if isinstance(operand, Tensor):
        return (operand,)
    return [tensor for tensor in operand if tensor is not None]


def _either(values: Sequence[Any]) -> str:
    return " or ".join(value if isinstance(value, str) else repr(value) for value in values)
