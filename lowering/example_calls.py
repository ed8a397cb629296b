"""Example calls of what entries catch, for `composites check` and for the canonical calls of locks.

An entry's `example` gives arguments. The others are guessed: tensors of one small shape, and
defaults or plain values for the rest. A guess counts only if PyTorch on the CPU accepts it. The
same entry has the same calls in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from composites.element_types import PYTORCH_NAMES
from composites.errors import LoweringError, UnusableFunctionError
from composites.functions import find_function
from composites.registry.model import Composite, Tensor
from composites.registry.operators import Argument, Operator, find_operator, find_overload
from composites.registry.signatures import describe_function

_SHAPES = ((2, 3), (4, 4), (2, 4, 4), (2, 4, 4, 4), (4,))
_VALUES = {"int": 1, "float": 1.0, "bool": False, "scalar": 1.0, "ints": [1], "bools": [True]}
_DTYPES = ("f32", "bf16")
"""Element types of the guessed calls, where the entry's conditions allow them."""

Place = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A function, and values of its arguments on the CPU."""

    function: Callable[..., Any]
    values: Mapping[str, Any]
    keyword_only: frozenset[str]
    of_decomposition: bool
    """Whether the function is the entry's decomposition: the caller's arguments are others."""

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional arguments, and those by keyword."""
        positional = [v for name, v in self.values.items() if name not in self.keyword_only]
        return positional, {name: self.values[name] for name in self.keyword_only}

    def run(self, place: Place) -> Any:
        """Call the function with `place(tensor)` in the place of each tensor."""
        placed = {name: _placed(value, place) for name, value in self.values.items()}
        positional = [value for name, value in placed.items() if name not in self.keyword_only]
        return self.function(*positional, **{name: placed[name] for name in self.keyword_only})


def _placed(value: Any, place: Place) -> Any:
    if isinstance(value, list):
        return [_placed(item, place) for item in value]
    return place(value) if isinstance(value, torch.Tensor) else value


@dataclass(frozen=True, slots=True)
class NoExample:
    """Why there is no example call."""

    reason: str


def example_calls(
    entry: Composite, function: Callable[..., Any] | None = None
) -> tuple[ExampleCall, ...] | NoExample:
    """Calls that the entry claims: as its `example` says, or a guess for each element type.

    `function` is that of an entry under `@composite`; of other entries it is looked up.

    Raises:
        LoweringError: the entry is on, and its `adapt` does not fit its decomposition.
    """
    found = _callee(entry) if function is None else _described(entry, function)
    if isinstance(found, NoExample):
        return found
    function, operator = found
    if entry.example:
        if unknown := [name for name, _ in entry.example if operator.argument(name) is None]:
            return NoExample(f"{operator.qualified} has no argument {unknown[0]!r}")
        try:
            return (_call(entry, function, operator, (2, 3), _dtypes(entry)[0]),)
        except LookupError as error:
            return NoExample(f"{operator.qualified}: `example` needs a value for {error}")
    guesses = (_guess(entry, function, operator, dtype) for dtype in _dtypes(entry))
    calls = tuple(call for call in guesses if call is not None)
    return calls or NoExample(
        f"no call of {operator.qualified} is easily guessed; give one with `example`"
    )


def refused_words(entry: Composite) -> Iterator[tuple[str, str, str]]:
    """Words in the entry's conditions on arguments that its operator accepts for no call: the
    argument, the word, and what the operator says."""
    operator = None if entry.op is None else find_operator(entry.op)
    words = [
        (name, value)
        for name, values in entry.when.values
        for value in values
        if operator is not None and (argument := operator.argument(name)) is not None
        and argument.kind == "string" and argument.has_default
    ]  # fmt: skip
    if not words:
        return
    usual = example_calls(replace(entry, when=replace(entry.when, values=())))
    if isinstance(usual, NoExample):
        return
    for name, word in words:
        try:
            replace(usual[0], values={**usual[0].values, name: word}).run(torch.clone)
        except Exception as error:
            yield name, word, str(error).partition("\n")[0]


def first_line(error: Exception) -> str:
    """What an error says, without the lines that PyTorch adds about itself."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _callee(entry: Composite) -> tuple[Callable[..., Any], Operator] | NoExample:
    """What the entry catches, as a function, and its arguments.

    A Python function whose arguments are adapted is represented by the decomposition.
    """
    if entry.op is not None:
        return caught(entry), find_operator(entry.op)
    if entry.adapt is not None and entry.decomposition.target is not None:
        target = entry.decomposition.target
        function = find_function(target)
        return function, describe_function(function, target)
    target = entry.functions[0]
    if "." in target.partition(":")[2]:
        return NoExample(f"{target} is a method, and its object cannot be guessed")
    try:
        operator = describe_function(find_function(target), target)
    except UnusableFunctionError as error:
        return NoExample(str(error))
    return caught(entry), operator


def caught(entry: Composite) -> Callable[..., Any]:
    """The operator that an entry catches, or the first of its Python functions."""
    if entry.op is not None:
        return find_overload(find_operator(entry.op))  # type: ignore[no-any-return]
    target = entry.functions[0]

    def call(*arguments: Any, **keywords: Any) -> Any:
        # Looked up again, because turning the entry on replaces the function.
        return find_function(target)(*arguments, **keywords)

    return call


def _described(
    entry: Composite, function: Callable[..., Any]
) -> tuple[Callable[..., Any], Operator] | NoExample:
    """A function under `@composite`. Its operands are tensors, annotated or not."""
    try:
        operator = describe_function(function, entry.functions[0])
    except UnusableFunctionError as error:
        return NoExample(str(error))
    arguments = (
        replace(a, kind="tensor", optional=False)
        if a.name in entry.operands and a.kind == "other"
        else a
        for a in operator.arguments
    )
    return function, replace(operator, arguments=tuple(arguments))


def _dtypes(entry: Composite) -> tuple[str, ...]:
    allowed = entry.when.dtypes
    return tuple(d for d in _DTYPES if not allowed or d in allowed) or allowed[:1]


def _guess(
    entry: Composite, function: Callable[..., Any], operator: Operator, dtype: str
) -> ExampleCall | None:
    for shape in _shapes(entry):
        try:
            call = _call(entry, function, operator, shape, dtype)
            with torch.random.fork_rng(devices=()):
                call.run(torch.clone)
        except LoweringError:  # the entry is on, and its adapter does not fit it
            raise
        except Exception:  # whatever a kernel raises; the guess was wrong
            continue
        return call
    return None


def _call(
    entry: Composite,
    function: Callable[..., Any],
    operator: Operator,
    shape: tuple[int, ...],
    dtype: str,
) -> ExampleCall:
    values = {a.name: _value(a, entry, shape, dtype) for a in operator.arguments}
    keyword_only = frozenset(a.name for a in operator.arguments if a.keyword_only)
    of_decomposition = entry.op is None and entry.adapt is not None
    return ExampleCall(function, values, keyword_only, of_decomposition)


def _shapes(entry: Composite) -> Iterator[tuple[int, ...]]:
    ranks = entry.when.ranks
    return (shape for shape in _SHAPES if not ranks or len(shape) in ranks)


def _value(argument: Argument, entry: Composite, shape: tuple[int, ...], dtype: str) -> Any:
    """A plain value of an argument.

    Raises:
        LookupError: none is known.
    """
    given = dict(entry.example)
    if argument.name in given:
        value = given[argument.name]
        if argument.kind == "dtype" and value is not None:
            return getattr(torch, PYTORCH_NAMES[str(value)])
        if isinstance(value, Tensor):
            return _tensor(value.shape, value.element_type)
        if not isinstance(value, tuple):
            return value
        return [_tensor(v.shape, v.element_type) if isinstance(v, Tensor) else v for v in value]
    if argument.is_tensor or argument.is_list:
        if argument.optional and (argument.name not in entry.operands or entry.example):
            return None
        if argument.is_list:
            return [_tensor(shape, dtype) for _ in range(2)]
        return _tensor(shape, dtype)
    allowed = dict(entry.when.values).get(argument.name)
    if allowed:
        return allowed[0]
    if argument.has_default:
        return argument.default
    if argument.optional and argument.kind != "other":
        return None
    if argument.kind not in _VALUES:
        raise LookupError(argument.name)
    return _VALUES[argument.kind]


def _tensor(shape: tuple[int, ...], element_type: str) -> torch.Tensor:
    size = torch.Size(shape)
    numbers = torch.arange(1, size.numel() + 1).div(max(size.numel(), 1)).reshape(size)
    return numbers.to(getattr(torch, PYTORCH_NAMES[element_type]))
