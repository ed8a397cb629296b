"""Selection of the kernel that takes a call, and the reasons why the others do not.

A call comes from one of three places: PyTorch's dispatcher (`lowering.dispatch.alternatives`), a
composite in StableHLO for which kernels of a platform are tried (`lowering.export.listed_kernels`),
or one for which decompositions to choose are tried (`lowering.export.listed_alternatives`). Each
place makes a `DescribedCall` of it, which is all that conditions see, and tries the kernels of a
`Selection` one after the other. Nothing here imports torch.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from composites.element_types import PYTORCH_NAMES
from composites.errors import LoweringError, UnsupportedCallError, did_you_mean
from composites.registry.conditions import ConditionError, compile_condition
from composites.registry.model import Tensor, When

TYPES = SimpleNamespace(**{name: name for name in PYTORCH_NAMES.values()})
"""The namespace `torch` of conditions, in which types are their names."""


@dataclass(frozen=True, slots=True)
class DescribedCall:
    """A call, as conditions of kernels see it."""

    operands: Sequence[Tensor | Sequence[Tensor | None]]
    """The operands that the call has, in the composite's order; one may be a list."""
    values: Mapping[str, Any]
    """Arguments or attributes, and operands, by the names that conditions have for them, which may
    be paths such as `self.weight`. An operand that the call does not have is None, and a dtype is
    its name in PyTorch."""

    def unmet(self, when: When, owner: str, *, exact: bool = False) -> str | None:
        """The first condition that the call does not meet; None if it meets all.

        Args:
            owner: the kernel or entry that has the conditions, and its place, for messages.
            exact: whether values are compared as Python does, which torch.compile traces too.
                Kernels may get floats as attributes, which have 32 bits.

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
        # Of a list, an entry has a condition on each tensor; a kernel on the call's first one.
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
        except UnsupportedCallError:  # of a size that varies
            raise
        except Exception as error:  # also a condition that does not fit a Python function
            types = ", ".join(map(str, chain(*map(_listed, self.operands))))
            hint = "begin it with a condition under which it can be, as in `self.dim() == 2 and …`"
            raise LoweringError(
                f"{owner}: when: {condition!r} cannot be evaluated for {types}"
                f" ({type(error).__name__}: {error})"
                f"{'' if isinstance(error, ConditionError) else f'; {hint}'}"
            ) from error

    def _named(self, path: str) -> Any:
        """The value that a condition names, or an attribute of the value."""
        if path in self.values:
            return self.values[path]
        root, _, attribute = path.partition(".")
        if root not in self.values:
            known = list(self.values)
            hint = f"{did_you_mean(root, known)} (known: {', '.join(known)})"
            raise ConditionError(f"there is no argument {root!r}{hint}")
        return getattr(self.values[root], attribute)

    def _holds(self, text: str) -> bool:
        written = compile_condition(text, self.values)
        # `compile_condition` lets nothing through that could do more than compute.
        values = {name.replace(".", "_"): value for name, value in self.values.items()}
        return bool(eval(written, {**values, "torch": TYPES, "len": len, "__builtins__": {}}))


K = TypeVar("K")


@dataclass(slots=True)
class Selection(Generic[K]):
    """The kernels that may take one call, one after the other. The caller continues until one of
    them takes the call."""

    kernels: Iterator[K]
    """The kernels, in the order in which they are tried."""
    refusal: Callable[[K], str | None]
    """The reason why a kernel does not take the call, if it is known before the kernel is tried."""
    declined: Callable[[K, str], None]
    """Notes that a kernel does not take the call, and why."""
    asked: K | None = None
    """The last one."""

    def __iter__(self) -> Iterator[K]:
        return self

    def __next__(self) -> K:
        for kernel in self.kernels:
            reason = self.refusal(kernel)
            if reason is None:
                self.asked = kernel
                return kernel
            self.declined(kernel, reason)
        raise StopIteration

    def decline(self, reason: str) -> None:
        """Note that the last one does not take the call."""
        assert self.asked is not None
        self.declined(self.asked, reason)


def _same(value: Any, allowed: Any) -> bool:
    """Return whether a value equals one of the file. Floats are attributes of 32 bits."""
    if isinstance(value, float) and isinstance(allowed, int | float):
        return ctypes.c_float(value).value == ctypes.c_float(allowed).value
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)


def _listed(operand: Tensor | Sequence[Tensor | None]) -> Sequence[Tensor]:
    """The tensors of an operand. A list may lack some of them."""
    if isinstance(operand, Tensor):
        return (operand,)
    return [tensor for tensor in operand if tensor is not None]


def _either(values: Sequence[Any]) -> str:
    return " or ".join(value if isinstance(value, str) else repr(value) for value in values)
