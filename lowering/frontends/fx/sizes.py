"""Sizes that vary in a recorded program: PyTorch's symbols, and the JAX symbols that replace them.

    the dimension batch  ->  SymInt s0, of which PyTorch computes shapes such as (2*s0, 8)
                         ->  `batch` of `jax.export`, with shapes such as (2*batch, 8)

PyTorch decides a condition that depends on a symbol with an example size, and keeps each decision
as a guard. A program with a guard that does not hold for all sizes is refused.
"""

import ast
import itertools
import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import torch

from composites import torch_internals
from composites.errors import CompositesError, ExportError
from composites.torch_internals import SizeSymbols, pytree
from composites.user_code import error_line
from lowering.frontends.aten_in_jax.table import NoRuleError
from lowering.frontends.protocols import Bounds, Kernel


@dataclass(slots=True, eq=False)
class _Sizes:
    """The symbols of one program."""

    symbols: SizeSymbols
    scope: Any
    """JAX's scope of the symbols."""
    bounds: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """The smallest and the largest size, by the name of JAX's symbol; None for no limit."""
    pytorch_sizes: dict[str, Any] = field(default_factory=dict)
    """PyTorch's sizes, by the name of JAX's symbol."""
    jax_by_name: dict[str, Any] = field(default_factory=dict)
    """JAX's symbols, by the name of PyTorch's symbol."""
    written: dict[str, str] = field(default_factory=dict)
    """The text that messages show for a symbol, by the symbol's name."""

    def add(
        self,
        name: str,
        example: int,
        least: int,
        largest: int | None,
        written: str = "",
        symbol: Any = None,
    ) -> torch.SymInt:
        # PyTorch's symbols are 2 at least, and a size with one value would be a number.
        most = None if largest is None else max(largest, 3)
        size = self.symbols.add(name, example, least, most)
        self.written[name] = written or name
        if symbol is None:
            (symbol,) = jax.export.symbolic_shape(f"{name},", scope=self.scope)
        self.bounds[name] = (least, largest)
        self.pytorch_sizes[name] = size
        self.jax_by_name[torch_internals.text_of_size(size)] = symbol
        return size

    def named(self, text: str) -> str:
        """A text in which the names of JAX's symbols replace those of PyTorch's."""
        return _renamed(text, {symbol: str(name) for symbol, name in self.jax_by_name.items()})

    def check(self) -> None:
        """Check the decisions that PyTorch made with the example sizes.

        Raises:
            ExportError: a decision does not hold at some sizes.
        """
        for guard in self.symbols.guards:
            text = self.named(guard.text)
            failing = _failing_sizes(text, self.bounds)
            if failing is not None:
                at = ", ".join(f"{self.written[name]}={size}" for name, size in failing.items())
                raise ExportError(
                    f"dynamic_shapes: {guard.location}the program holds only where"
                    f" {_renamed(text, self.written)}, and not at {at}; {_ADVICE}"
                )


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for name, renamed in names.items():
        text = re.sub(rf"\b{name}\b", renamed, text)
    return text


def _failing_sizes(condition: str, bounds: Mapping[str, tuple[int, int | None]]) -> Any:
    """Sizes within bounds at which a condition does not hold; None if it holds at small sizes, at
    sizes near numbers in the condition and their products, and at the largest size."""
    code = compile(condition, "<condition>", "eval")
    names = [name for name in bounds if name in code.co_names]
    numbers = {int(number) for number in re.findall(r"\b\d+\b", condition)} | {1}
    near = {a * b + step for a in numbers for b in numbers for step in (-1, 0, 1)}
    tried = []
    for name in names:
        least, most = bounds[name]
        largest = _LARGE if most is None else most
        sizes = {*range(least, least + 2 * _SMALL // len(names)), *near, largest}
        tried.append(sorted(size for size in sizes if least <= size <= largest))
    for chosen in itertools.product(*tried):
        values = dict(zip(names, chosen, strict=True))
        if not eval(code, {"math": math, "max": max, "min": min}, values):
            return values
    return None


_SMALL, _LARGE = 32, 2**31
"""The number of small sizes that are tried, and the largest size without bounds."""

_ADVICE = (
    "use one Dim for dimensions that are equal, give bounds of the sizes that it takes, as in"
    " Dim('seq', min=8, max=512), or keep the dimension fixed"
)

_CURRENT: list[_Sizes] = []
"""The symbols of the program that is recorded; empty if its sizes do not vary."""


@contextmanager
def symbolic(dimensions: Bounds) -> Iterator[Mapping[str, torch.SymInt]]:
    """See `lowering.frontends.protocols.Recording`."""
    bounds = [f"{name} >= {least}" for name, (least, _) in dimensions.items()]
    bounds += [f"{name} <= {most}" for name, (_, most) in dimensions.items() if most is not None]
    sizes = _Sizes(SizeSymbols(), jax.export.SymbolicScope(bounds))
    used: set[int] = set()
    for name, (least, most) in dimensions.items():
        used.add(example := _example(least, most, used))
        sizes.add(name, example, least, most)
    made = dict(sizes.pytorch_sizes)
    try:
        with _recorded_with([sizes]):
            yield made
    except CompositesError:
        raise
    except Exception as error:
        raise ExportError(
            f"dynamic_shapes: {error_line(error)}the module fails with varying sizes:"
            f" {type(error).__name__}: {_renamed(sizes.named(str(error)), sizes.written)};"
            f" {_ADVICE}"
        ) from error
    sizes.check()


@contextmanager
def _recorded_with(current: list[_Sizes]) -> Iterator[None]:
    """A context in which a program is recorded, with symbols unless `current` is empty."""
    before, _CURRENT[:] = _CURRENT[:], current
    try:
        with ExitStack() as stack:
            if current:
                stack.enter_context(torch_internals.hashable_sizes())
                stack.enter_context(torch_internals.decomposed_late())
                stack.enter_context(torch_internals.python_kernels())
            yield
    finally:
        _CURRENT[:] = before


@contextmanager
def symbolize(shapes: Sequence[Sequence[Any]]) -> Iterator[list[tuple[Any, ...]]]:
    """A context in which a function of arrays is recorded; yields their shapes, with a symbol of
    PyTorch for each symbol of JAX.

    Raises:
        NoRuleError: PyTorch took a branch that depends on a symbol.
    """
    symbols = dict.fromkeys(size for shape in shapes for size in shape if not isinstance(size, int))
    if not symbols:
        with _recorded_with([]):
            yield [tuple(shape) for shape in shapes]
        return
    sizes = _Sizes(SizeSymbols(), None)
    used: set[int] = set()
    made: dict[Any, Any] = {}
    for number, symbol in enumerate(symbols):
        used.add(example := _example(2, None, used))
        made[symbol] = sizes.add(f"size{number}", example, 2, None, symbol=symbol)
    with _recorded_with([sizes]):
        yield [tuple(made.get(size, size) for size in shape) for shape in shapes]
    for guard in sizes.symbols.guards:
        if not _is_inequality(guard.text):
            raise NoRuleError(
                "the decomposition depends on a size that is symbolic in this program"
                f" ({sizes.named(guard.text)}); write this size as a number"
            )


def _is_inequality(text: str) -> bool:
    condition = ast.parse(text, mode="eval").body
    return isinstance(condition, ast.Compare) and [type(op) for op in condition.ops] == [ast.NotEq]


def _example(least: int, most: int | None, used: set[int]) -> int:
    """A size that no other dimension of a program is likely to have."""
    largest = 2 * max(least, 1000)
    largest = largest if most is None else min(most, largest)
    sizes = [size for size in range(largest, least - 1, -1) if size not in used]
    return next(filter(_is_prime, sizes), sizes[0] if sizes else largest)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, math.isqrt(number) + 1))


def vary() -> bool:
    """Return whether the recorded program has varying sizes."""
    return bool(_CURRENT)


@dataclass(frozen=True, slots=True)
class Expression:
    """An argument of a recorded call: a number that is computed from sizes."""

    text: str


def as_expressions(arguments: Any) -> Any:
    """Arguments, in any nesting, with sizes as expressions. Other values stay."""
    return pytree.tree_map(_as_expression, arguments) if _CURRENT else arguments


def _as_expression(value: Any) -> Any:
    if not isinstance(value, torch.SymInt | torch.SymFloat):
        return value
    return Expression(torch_internals.text_of_size(value))


def in_jax(value: Any, symbols: Mapping[str, Any] | None = None) -> Any:
    """Convert sizes and expressions, in any nesting, to JAX's sizes. Other values stay.

    Args:
        symbols: JAX's symbols, by the names of PyTorch's; by default those of the recorded program.
    """
    names = jax_symbols() if symbols is None else symbols

    def convert(value: Any) -> Any:
        value = _as_expression(value)
        return _evaluated(value.text, names) if isinstance(value, Expression) else value

    return pytree.tree_map(convert, value) if names else value


def jax_symbols() -> Mapping[str, Any]:
    """JAX's symbols in the recorded program, by the names of PyTorch's symbols."""
    return _CURRENT[-1].jax_by_name if _CURRENT else {}


def describing() -> AbstractContextManager[Any]:
    """A context in which operators also compute the shapes of their results with symbols."""
    return torch_internals.python_kernels() if _CURRENT else nullcontext()


def in_pytorch(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Convert a shape of JAX to a shape of PyTorch."""
    if not _CURRENT:
        return tuple(shape)
    pytorch_sizes = _CURRENT[-1].pytorch_sizes
    return tuple(
        size if isinstance(size, int) else _evaluated(str(size).replace("^", "**"), pytorch_sizes)
        for size in shape
    )


def own_shapes(shapes: Sequence[Sequence[Any] | None]) -> list[tuple[Any, ...] | None]:
    """Shapes whose sizes a function can compute from these shapes: a symbol that is itself a size,
    an expression of such symbols, or a new symbol for a size of other symbols."""
    if not _CURRENT:
        return [None if shape is None else tuple(shape) for shape in shapes]
    alone = {str(in_jax(s)) for shape in shapes if shape is not None for s in shape}
    new: dict[str, torch.SymInt] = {}

    def own(size: Any) -> Any:
        if not isinstance(size, torch.SymInt):
            return size
        dimension = in_jax(size)
        if isinstance(dimension, int) or alone.issuperset(map(str, dimension._get_vars())):
            return size
        if str(dimension) not in new:
            new[str(dimension)] = _new(size, str(dimension))
        return new[str(dimension)]

    return [None if shape is None else tuple(map(own, shape)) for shape in shapes]


def _new(like: torch.SymInt, written: str) -> torch.SymInt:
    sizes = _CURRENT[-1]
    name = next(n for k in itertools.count() if (n := f"size{k}") not in sizes.pytorch_sizes)
    least, most = torch_internals.bounds_of(like)
    return sizes.add(name, torch_internals.example_of(like), max(least, 2), most, written)


def _evaluated(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression of sizes, as PyTorch and JAX write it."""
    return eval(text, {"__builtins__": {}, **_FUNCTIONS}, dict(names))


def _extreme(of_pytorch: Kernel, of_jax: Kernel, *sizes: Any) -> Any:
    """The largest or smallest size, by the function for PyTorch's sizes or for JAX's."""
    has_symbols = any(isinstance(size, torch.SymInt) for size in sizes)
    return of_pytorch(*sizes) if has_symbols else of_jax(*sizes)


def _float(size: Any) -> Any:
    return 1.0 * jnp.asarray(size)


_FUNCTIONS = {
    "abs": jnp.abs, "float": _float, "floordiv": operator.floordiv,
    "math": SimpleNamespace(ceil=jnp.ceil, floor=jnp.floor, sqrt=jnp.sqrt, trunc=jnp.trunc),
    "max": partial(_extreme, torch.sym_max, jax.core.max_dim),
    "min": partial(_extreme, torch.sym_min, jax.core.min_dim), "mod": operator.mod,
    "torch": SimpleNamespace(_sym_sqrt=jnp.sqrt, sym_float=_float),
}  # fmt: skip
"""The functions that the expressions call."""
