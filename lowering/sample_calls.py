"""Sample calls that entries catch, for `composites check`, `show` and `verify`, and for locks.

The arguments are yielded by the function of an entry's `samples`, or are those of its `example`, or
are guessed: tensors of one small shape, and defaults or plain values for the rest. A guess counts
only if PyTorch on the CPU accepts it. The same entry has the same calls in every process.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from composites.element_types import PYTORCH_NAMES
from composites.errors import CompositesError, LoweringError, UnusableFunctionError
from composites.functions import find_function
from composites.registry.model import Composite, Tensor
from composites.registry.operators import Argument, Operator, find_operator, overload
from composites.registry.samples import samples_of
from composites.registry.signatures import describe_function
from composites.torch_internals import pytree
from composites.user_code import described

_SHAPES = ((2, 3), (4, 4), (2, 4, 4), (2, 4, 4, 4), (4,))
_VALUES = {"int": 1, "float": 1.0, "bool": False, "scalar": 1.0, "ints": [1], "bools": [True]}
_DTYPES = ("f32", "bf16")
"""Element types of the guessed calls, where the entry's conditions allow them."""

Convert = Callable[[torch.Tensor], torch.Tensor]
Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments and keywords."""


@dataclass(frozen=True, slots=True)
class NoCalls:
    """The reason why there are no calls."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A call. Its tensors are on the CPU, and those that need a gradient have `requires_grad`."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]
    text: str = ""
    reference: Callable[..., Any] | None = None
    """The function that the call means without composites, if it is not the same function."""

    def converted(self, convert: Convert) -> Call:
        """Arguments and keywords, with `convert(tensor)` instead of each tensor."""

        def leaf(value: Any) -> Any:
            if isinstance(value, torch.nn.Module):
                return _moved(value, convert)
            return _converted(value, convert) if isinstance(value, torch.Tensor) else value

        converted: Call = pytree.tree_map(leaf, (tuple(self.arguments), dict(self.keywords)))
        return converted

    def run(self, convert: Convert) -> Any:
        """Call the function with `convert(tensor)` instead of each tensor."""
        arguments, keywords = self.converted(convert)
        return self.function(*arguments, **keywords)


def _converted(tensor: torch.Tensor, convert: Convert) -> torch.Tensor:
    converted = convert(tensor)
    if tensor.is_leaf and tensor.grad is not None:
        converted.grad = convert(tensor.grad)
    return converted


def _moved(module: torch.nn.Module, convert: Convert) -> torch.nn.Module:
    """A copy of a module with converted parameters and buffers. Where `convert` returns a tensor
    that requires a gradient, the copy has that tensor itself instead of a parameter."""
    copied = copy.deepcopy(module)
    for part in copied.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            moved = convert(parameter.detach())
            if moved.requires_grad:
                # The gradient of `moved` is requested. A parameter made from it would get it.
                delattr(part, name)
                setattr(part, name, moved)
            else:
                parameter = torch.nn.Parameter(moved, parameter.requires_grad)
                part.register_parameter(name, parameter)
        for name, buffer in part.named_buffers(recurse=False):
            setattr(part, name, convert(buffer))
    return copied


def make_calls(
    samples: str,
    dtype: torch.dtype,
    label: str,
    find: Callable[[str], Callable[..., Any]] = find_function,
) -> list[Call]:
    """Return the calls that a function yields for a dtype.

    Args:
        samples: the name of the function, as `find` takes it.
        label: the entry, for error messages.

    Raises:
        UnusableFunctionError: the function cannot be used.
    """
    make = find(samples)
    torch.manual_seed(0)
    try:
        items = list(make(dtype))
    except CompositesError:
        raise
    except Exception as error:
        raise UnusableFunctionError(
            f"{label}: samples: {samples} failed: {described(error)}"
        ) from error
    for item in items:
        if not (isinstance(item, tuple) and [type(part) for part in item] == [tuple, dict]):
            raise UnusableFunctionError(
                f"{label}: samples: {samples} yields {type(item).__name__}; yield pairs of"
                " arguments and keywords, as in `yield (x,), {'dim': 1}`"
            )
    return items


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A function, and values of its arguments on the CPU."""

    function: Callable[..., Any]
    values: Mapping[str, Any]
    keyword_only: frozenset[str]
    specified: frozenset[str] = frozenset()
    """Arguments whose values come from `example` or from samples. The others are guessed."""

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional arguments, and keyword arguments."""
        named = {n: value for n, value in self.values.items() if n in self.keyword_only}
        return [v for name, v in self.values.items() if name not in named], named

    def sample(self) -> Sample:
        """The same call without the names of positional arguments."""
        return Sample(self.function, *self.arguments())

    def run(self, convert: Convert) -> Any:
        """Call the function with `convert(tensor)` instead of each tensor."""
        return self.sample().run(convert)


def example_calls(
    entry: Composite, function: Callable[..., Any] | None = None
) -> tuple[ExampleCall, ...] | NoCalls:
    """Calls that the entry claims: its `example`, the first sample of the module that its file
    names for samples, or a guess for each element type. A call with a module is not an example, and
    neither is a call of a method.

    `function` is the function of an entry under `@composite`; for other entries it is looked up.

    Raises:
        LoweringError: the entry is on, and its `adapt` does not fit its decomposition.
    """
    callee = _callee(entry) if function is None else _described(entry, function)
    if isinstance(callee, NoCalls):
        return callee
    function, operator = callee
    if entry.example:
        if unknown := [name for name, _ in entry.example if operator.argument(name) is None]:
            return NoCalls(f"{operator.qualified} has no argument {unknown[0]!r}")
        try:
            return (_call(entry, function, operator, (2, 3), _dtypes(entry)[0]),)
        except LookupError as error:
            return NoCalls(f"{operator.qualified}: `example` needs a value for {error}")
    if entry.samples_by_name and not _is_method(entry):
        try:
            sample = _first_sample(entry, function, operator)
        except Exception as error:  # of the functions that the file names
            is_ours = isinstance(error, CompositesError)
            return NoCalls(str(error) if is_ours else f"{entry.adapt}: {first_line(error)}")
        if sample is not None:
            return (sample,)
    guesses = (_guess(entry, function, operator, dtype) for dtype in _dtypes(entry))
    calls = tuple(call for call in guesses if call is not None)
    return calls or NoCalls(
        f"no call of {operator.qualified} is easily guessed; give one with `example`"
    )


def _is_method(entry: Composite) -> bool:
    return entry.op is None and "." in entry.functions[0].partition(":")[2]


def _first_sample(
    entry: Composite, function: Callable[..., Any], operator: Operator
) -> ExampleCall | None:
    """The first sample of an entry; None if it has none, or if the sample has a module."""
    samples = samples_of(entry)
    if samples is None:
        return None
    dtype = getattr(torch, PYTORCH_NAMES[_dtypes(entry)[0]])
    with torch.random.fork_rng(devices=()):
        calls = make_calls(samples, dtype, entry.qualified)[:1]
    if not calls or any(isinstance(leaf, torch.nn.Module) for leaf in pytree.tree_leaves(calls)):
        return None
    positional, keywords = calls[0]
    if is_adapted_function(entry):
        values = adapted(str(entry.adapt), function, positional, keywords)
    else:
        values = bound(operator, positional, keywords)
    detach = partial(_converted, convert=torch.Tensor.detach)
    values = pytree.tree_map_only(torch.Tensor, detach, values)
    return ExampleCall(function, values, keyword_only(operator), frozenset(values))


def is_adapted_function(entry: Composite) -> bool:
    """Return whether an entry adapts the arguments of a Python function. Its example calls are then
    calls of the decomposition."""
    return entry.op is None and entry.adapt is not None


def keyword_only(operator: Operator) -> frozenset[str]:
    return frozenset(a.name for a in operator.arguments if a.keyword_only)


def bound(
    operator: Operator, positional: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name, with defaults."""
    names = [argument.name for argument in operator.arguments if not argument.keyword_only]
    passed = {**dict(zip(names, positional, strict=False)), **keywords}
    return {a.name: passed.get(a.name, a.default) for a in operator.arguments}


class _Reached(Exception):
    """Raised to end a function for `adapt` when it has called the composite."""


def adapted(
    adapt: str,
    decomposition: Callable[..., Any],
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
) -> dict[str, Any]:
    """The arguments of a decomposition by name, as `adapt` passes them on for a call.

    Raises:
        CompositesError: the call does not become a composite.
    """
    signature = inspect.signature(decomposition)
    calls: list[dict[str, Any]] = []

    def composite(*arguments: Any, **named: Any) -> Any:
        reached = signature.bind(*arguments, **named)
        reached.apply_defaults()
        calls.append(dict(reached.arguments))
        raise _Reached

    try:
        find_function(adapt)(composite, *positional, **keywords)
    except _Reached:
        return calls[0]
    raise CompositesError(f"{adapt} does not make the example a composite")


def refused_words(entry: Composite) -> Iterator[tuple[str, str, str]]:
    """Strings in the entry's conditions that its operator always refuses: the argument, the string,
    and the operator's error."""
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
    if isinstance(usual, NoCalls):
        return
    for name, word in words:
        try:
            replace(usual[0], values={**usual[0].values, name: word}).run(torch.clone)
        except Exception as error:
            yield name, word, str(error).partition("\n")[0]


def first_line(error: Exception) -> str:
    """The text of an error, without the lines that PyTorch adds about itself."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _callee(entry: Composite) -> tuple[Callable[..., Any], Operator] | NoCalls:
    """The operator or function that the entry catches, as a function, and its arguments.

    A Python function whose arguments are adapted is represented by the decomposition.
    """
    if entry.op is not None:
        return caught(entry), find_operator(entry.op)
    if entry.adapt is not None and entry.decomposition.target is not None:
        target = entry.decomposition.target
        function = find_function(target)
        return function, describe_function(function, target)
    target = entry.functions[0]
    if _is_method(entry):
        return NoCalls(f"{target} is a method, and its object cannot be guessed")
    try:
        operator = describe_function(find_function(target), target)
    except UnusableFunctionError as error:
        return NoCalls(str(error))
    return caught(entry), operator


def caught(entry: Composite) -> Callable[..., Any]:
    """The operator that an entry catches, or its first Python function."""
    if entry.op is not None:
        return overload(entry.op)  # type: ignore[no-any-return]
    target = entry.functions[0]

    def call(*arguments: Any, **keywords: Any) -> Any:
        # Looked up again, because turning the entry on replaces the function.
        return find_function(target)(*arguments, **keywords)

    return call


def _described(
    entry: Composite, function: Callable[..., Any]
) -> tuple[Callable[..., Any], Operator] | NoCalls:
    """A function under `@composite`. Its operands are tensors, annotated or not."""
    try:
        operator = describe_function(function, entry.functions[0])
    except UnusableFunctionError as error:
        return NoCalls(str(error))
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
    ranks = entry.when.ranks
    for shape in (shape for shape in _SHAPES if not ranks or len(shape) in ranks):
        try:
            call = _call(entry, function, operator, shape, dtype)
            with torch.random.fork_rng(devices=()):
                call.run(torch.clone)
        except LoweringError:  # the entry is on, and its `adapt` does not fit its decomposition
            raise
        except Exception:  # kernels raise errors of any type; the guess was wrong
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
    return ExampleCall(function, values, keyword_only(operator), frozenset(dict(entry.example)))


def _value(argument: Argument, entry: Composite, shape: tuple[int, ...], dtype: str) -> Any:
    """A plain value of an argument.

    Raises:
        LookupError: arguments of this kind have no plain value.
    """
    example = dict(entry.example)
    if argument.name in example:
        value = example[argument.name]
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
