"""Calls to run: what a file names, PyTorch's own samples, or calls that are generated.

A sample's tensors are on the CPU. The same samples are made in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from composites.element_types import PYTORCH_NAMES
from composites.functions import find_function, load_function
from composites.registry.model import Composite
from composites.registry.samples import samples_of
from composites.torch_internals import pytree
from lowering.sample_calls import (
    ExampleCall,
    NoCalls,
    Sample,
    calls_of,
    caught,
    example_calls,
)
from lowering.verification import opinfo
from lowering.verification.targets import Target

NAMED, DATABASE, GENERATED = "samples", "OpInfo", "generated"
"""Where samples come from."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of one source."""

    source: str
    samples: tuple[Sample, ...]


def sources(target: Target, element_type: str, count: int) -> Iterator[Samples | NoCalls]:
    """Samples from each source that has some, the best first; at most `count` of each.

    Raises:
        UnusableFunctionError: the function that yields samples cannot be used.
    """
    dtype = getattr(torch, PYTORCH_NAMES[element_type])
    if target.samples is not None:
        yield Samples(NAMED, chosen(list(_named(target, dtype)), count))
        return
    op = target.entry.op if target.entry.op is not None else target.forward and target.forward.op
    if op:
        found = list(_of_database(op, dtype))
        if found:
            yield Samples(DATABASE, chosen(found, count))
    made = _generated(target, element_type, dtype)
    yield made if isinstance(made, NoCalls) else Samples(GENERATED, chosen(list(made), count))


def chosen(samples: list[Sample], count: int) -> tuple[Sample, ...]:
    """Some of the samples, in their order: one of each set of keywords first, then others."""
    if len(samples) <= count:
        return tuple(samples)
    kinds: dict[str, int] = {}
    for number, sample in enumerate(samples):
        kinds.setdefault(repr(sorted(map(_plain, sample.keywords.items()))), number)
    firsts = list(kinds.values())
    numbers = {firsts[n * len(firsts) // count] for n in range(count)}
    for number in (n * len(samples) // count for n in range(count)):
        if len(numbers) < count:
            numbers.add(number)
    return tuple(samples[number] for number in sorted(numbers))


def _plain(item: tuple[str, Any]) -> tuple[str, str]:
    name, value = item
    return name, "tensor" if isinstance(value, torch.Tensor) else repr(value)


# ---- named in the file ----


def _named(target: Target, dtype: torch.dtype) -> Iterator[Sample]:
    assert target.samples is not None
    find = load_function if target.function else find_function
    function, original = target.function or caught(_owner(target)), target.original
    calls = calls_of(target.samples, dtype, target.label, find)
    for number, (arguments, keywords) in enumerate(calls):
        text = _text(number, arguments, keywords)
        yield Sample(function, arguments, keywords, text, original)


def _owner(target: Target) -> Composite:
    """The entry whose calls the samples are: a backward is reached through its forward."""
    entry, forward = target.entry, target.forward
    calls_itself = samples_of(entry) is not None and (entry.op is not None or entry.functions)
    return entry if calls_itself or forward is None else forward


# ---- PyTorch's ----


def _of_database(op: str, dtype: torch.dtype) -> Iterator[Sample]:
    for number, found in enumerate(opinfo.samples_of(op, dtype, gradients=True)):
        text = _text(number, found.arguments, found.keywords)
        yield Sample(found.function, found.arguments, found.keywords, text)


# ---- generated ----


def _generated(target: Target, element_type: str, dtype: torch.dtype) -> Iterator[Sample] | NoCalls:
    entry = target.entry
    if entry.op is None and entry.gradients and target.forward is not None:
        entry = target.forward
    if entry.op is None and entry.adapt is not None:
        return NoCalls("no samples; name some with `samples`")
    calls = example_calls(entry, target.function)
    if isinstance(calls, NoCalls):
        return NoCalls(f"no samples ({calls.reason}); name some with `samples`")
    fitting = [call for call in calls if _element_type(call) in (element_type, "f32")]
    if not fitting:
        return NoCalls(f"its example call is not in {element_type}; name some with `samples`")
    return _varied(fitting[0], entry, dtype, target)


def _element_type(call: ExampleCall) -> str:
    leaves = pytree.tree_leaves(list(call.values.values()))
    tensors = [v for v in leaves if isinstance(v, torch.Tensor)]
    names = {getattr(torch, value): key for key, value in PYTORCH_NAMES.items()}
    floats = [t for t in tensors if t.is_floating_point()]
    narrowest = min(floats, key=lambda t: t.element_size(), default=None)
    return "f32" if narrowest is None else names[narrowest.dtype]


def _varied(
    call: ExampleCall, entry: Composite, dtype: torch.dtype, target: Target
) -> Iterator[Sample]:
    """The call in a dtype, with signed values, and with other values of its plain arguments."""
    arguments = [name for name in call.values if name not in call.keyword_only]
    differentiable = not target.is_backward or entry is not target.entry
    fixed = {name for name, _ in entry.when.values} | call.given

    def sample(number: int, values: Mapping[str, Any]) -> Sample:
        placed = {n: _prepared(v, dtype, differentiable) for n, v in values.items()}
        positional = tuple(placed[name] for name in arguments)
        keywords = {name: placed[name] for name in sorted(call.keyword_only)}
        text = _text(number, positional, keywords)
        return Sample(call.function, positional, keywords, text, target.original)

    yield sample(0, call.values)
    yield sample(1, {name: _signed(value) for name, value in call.values.items()})
    number = 2
    for name, value in call.values.items():
        for other in _others(value) if name not in fixed else ():
            yield sample(number, {**call.values, name: other})
            number += 1


def _prepared(value: Any, dtype: torch.dtype, differentiable: bool) -> Any:
    if isinstance(value, list):
        return [_prepared(item, dtype, differentiable) for item in value]
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    made = value.to(dtype) if value.dtype == torch.float32 else value.clone()
    return made.requires_grad_(differentiable)


def _signed(value: Any) -> Any:
    """The values of a tensor of floats, from (0, 1] to (-2, 2], in another order."""
    if isinstance(value, list):
        return [_signed(item) for item in value]
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.dim():
        return value
    spread = value.to(torch.float32) * 4 - 2
    order = torch.randperm(value.numel(), generator=torch.Generator().manual_seed(2))
    return spread.reshape(-1)[order].reshape(value.shape).to(value.dtype)


def _others(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, float):
        return (value * 0.5 + 0.25,)
    return ()


def _text(number: int, arguments: Iterable[Any], keywords: Mapping[str, Any]) -> str:
    """`sample 3: (float32[2, 3], 1, dim=1)`"""
    shown = [_shown(value) for value in arguments]
    shown += [f"{name}={_shown(value)}" for name, value in keywords.items()]
    return f"sample {number}: ({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, torch.nn.Module):
        return type(value).__name__
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


def without_gradients(sample: Sample) -> Sample:
    """The same call, where no tensor needs a gradient."""
    arguments, keywords = sample.placed(torch.Tensor.detach)
    for value in pytree.tree_leaves((arguments, keywords)):
        if isinstance(value, torch.nn.Module):
            value.requires_grad_(False)
    return replace(sample, arguments=arguments, keywords=keywords)
