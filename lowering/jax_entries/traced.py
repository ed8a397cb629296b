"""Comparison of the operations of traced functions, and the operands that their results depend on.

Functions are written as expressions over their operands, in which equal operations are one. A
broadcast, which can be one step or two, and an operation or a part of the next operation, is
written in one way. Functions that compute the same by different operations compare as different.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

# Operations on each element, whose operands JAX broadcasts.
_ELEMENTWISE = {
    "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil",
    "conj", "convert_element_type", "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc",
    "exp", "exp2", "expm1", "floor", "ge", "gt", "imag", "integer_pow", "is_finite", "le", "lgamma",
    "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pow", "real",
    "rem", "round", "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt", "square", "sub", "tan",
    "tanh", "xor",
}  # fmt: skip
_CALLS = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "jit": "jaxpr"}


def is_same(left: Any, right: Any) -> bool:
    """Return whether two closed jaxprs are the same operations.

    Jaxprs with effects, such as `jax.debug.print`, are not the same, because results do not show
    the number of effects.
    """
    if left.effects or right.effects:
        return False
    expressions = _Expressions()
    return expressions.results(left) == expressions.results(right)


def depends_on(jaxpr: Any, chosen: Sequence[bool]) -> list[bool]:
    """For each result of a closed jaxpr, True if it depends on a chosen operand."""
    reached = {v for v, asked in zip(jaxpr.jaxpr.invars, chosen, strict=True) if asked}
    for equation in jaxpr.jaxpr.eqns:
        if any(not isinstance(atom, Literal) and atom in reached for atom in equation.invars):
            reached.update(equation.outvars)
    return [not isinstance(atom, Literal) and atom in reached for atom in jaxpr.jaxpr.outvars]


class _Expressions:
    """Expressions by number; equal expressions have the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._broadcasts: dict[int, tuple[int, tuple[int, ...]]] = {}
        """The operand of a broadcast, and its dimensions in the result, by the result."""

    def results(self, jaxpr: Any) -> list[Any]:
        """The results of a function, with their types."""
        inputs = [
            self._number("input", n, _typed(variable))
            for n, variable in enumerate(jaxpr.jaxpr.invars)
        ]
        ids = self._run(jaxpr, inputs)
        return [
            (number, _typed(atom)) for number, atom in zip(ids, jaxpr.jaxpr.outvars, strict=True)
        ]

    def _run(self, jaxpr: Any, inputs: list[int]) -> list[int]:
        numbers = dict(zip(jaxpr.jaxpr.invars, inputs, strict=True))
        for variable, constant in zip(jaxpr.jaxpr.constvars, jaxpr.consts, strict=True):
            numbers[variable] = self._number("constant", _plain(constant))

        def read(atom: Any) -> int:
            if isinstance(atom, Literal):
                return self._number("constant", _plain(atom.val), str(atom.aval.dtype))
            value: int = numbers[atom]
            return value

        for equation in jaxpr.jaxpr.eqns:
            operands = list(map(read, equation.invars))
            for variable, number in zip(
                equation.outvars, self._equation(equation, operands), strict=True
            ):
                numbers[variable] = number
        return list(map(read, jaxpr.jaxpr.outvars))

    def _equation(self, equation: Any, operands: list[int]) -> list[int]:
        name, parameters = equation.primitive.name, equation.params
        if name in _CALLS:
            return self._run(parameters[_CALLS[name]], operands)
        types = [_typed(variable) for variable in equation.outvars]
        if name == "broadcast_in_dim":
            return [self._broadcast(operands[0], parameters["broadcast_dimensions"], types[0])]
        described: list[Any] = list(operands)
        if name in _ELEMENTWISE:
            # The key of an operand leaves a broadcast out.
            described = [self._broadcasts.get(number, number) for number in operands]
        plain = tuple(sorted((key, _plain(value)) for key, value in parameters.items()))
        whole = self._number(name, tuple(described), plain, tuple(types))
        return [self._number("result", whole, n) for n in range(len(types))]

    def _broadcast(self, operand: int, dims: Any, type_: Any) -> int:
        dims = tuple(map(int, dims))
        if operand in self._broadcasts:
            operand, inner = self._broadcasts[operand]
            dims = tuple(dims[n] for n in inner)
        number = self._number("broadcast", operand, dims, type_)
        self._broadcasts[number] = (operand, dims)
        return number

    def _number(self, *parts: Any) -> int:
        return self._numbers.setdefault(parts, len(self._numbers))


def _typed(atom: Any) -> tuple[Any, ...]:
    return (tuple(map(int, atom.aval.shape)), str(atom.aval.dtype))


def _plain(value: Any) -> Any:
    """A hashable form of a value; forms of values with the same meaning are equal."""
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return ("sequence", *map(_plain, value))
    if isinstance(value, bool | int | float | complex):
        return repr(value)
    if isinstance(value, ClosedJaxpr | Jaxpr):
        return str(value)
    if hasattr(value, "_fields"):
        return (type(value).__name__, *(_plain(getattr(value, f)) for f in value._fields))
    return repr(value)
