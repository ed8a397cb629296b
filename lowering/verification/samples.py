"""Calls to run: samples that a file names, PyTorch's own samples, or generated calls.

A sample's tensors are on the CPU. The same samples are made in every process.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from composites.element_types import NAME_OF_PYTORCH, PYTORCH_NAMES
from composites.functions import find_function, load_function
from composites.registry.model import Composite
from composites.registry.samples import samples_of
from composites.torch_internals import pytree
from lowering.sample_calls import (
    Convert,
    ExampleCall,
    NoCalls,
    Sample,
    caught,
    example_calls,
    is_adapted_function,
    make_calls,
)
from lowering.verification import opinfo
from lowering.verification.subjects import Subject

NAMED, DATABASE, GENERATED = "samples", "OpInfo", "generated"
"""The sources of samples."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of one source."""

    source: str
    samples: tuple[Sample, ...]


def sources(subject: Subject, element_type: str, count: int) -> Iterator[Samples | NoCalls]:
    """Samples from each source that has samples, the best source first; at most `count` per source,
    or twice as many generated ones, which are small.

    Raises:
        UnusableFunctionError: the function that yields samples cannot be used.
    """
    dtype = getattr(torch, PYTORCH_NAMES[element_type])
    if subject.samples is not None:
        yield _choose(NAMED, _named(subject, dtype), count)
        return
    entry, forward = subject.entry, subject.forward
    op = entry.op if entry.op is not None else forward and forward.op
    samples = list(opinfo.make_samples(op, dtype, gradients=True)) if op else []
    if samples:
        yield _choose(DATABASE, samples, count)
    generated = _generated(subject, element_type, dtype)
    if isinstance(generated, NoCalls):
        yield generated
    else:
        yield _choose(GENERATED, generated, 2 * count)


def _choose(source: str, samples: Iterable[Sample], count: int) -> Samples:
    """At most `count` samples of a source, with their texts."""
    texts = [replace(sample, text=_text(n, sample)) for n, sample in enumerate(samples)]
    return Samples(source, chosen(texts, count))


def chosen(samples: list[Sample], count: int) -> tuple[Sample, ...]:
    """At most `count` samples, in their order, with one for each set of keywords if possible."""
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


def _named(subject: Subject, dtype: torch.dtype) -> Iterator[Sample]:
    assert subject.samples is not None
    find = load_function if subject.function else find_function
    function = subject.function or caught(_calling_entry(subject))
    for arguments, keywords in make_calls(subject.samples, dtype, subject.label, find):
        yield Sample(function, arguments, keywords, reference=subject.original)


def _calling_entry(subject: Subject) -> Composite:
    """The entry that catches the samples: the forward of a backward without samples of its own."""
    entry, forward = subject.entry, subject.forward
    calls_itself = samples_of(entry) is not None and (entry.op is not None or entry.functions)
    return entry if calls_itself or forward is None else forward


def _generated(
    subject: Subject, element_type: str, dtype: torch.dtype
) -> Iterator[Sample] | NoCalls:
    entry = subject.entry
    if entry.op is None and entry.gradients and subject.forward is not None:
        entry = subject.forward
    if is_adapted_function(entry):
        return NoCalls("no samples; name some with `samples`")
    calls = example_calls(entry, subject.function)
    if isinstance(calls, NoCalls):
        return NoCalls(f"no samples ({calls.reason}); name some with `samples`")
    fitting = [call for call in calls if _element_type(call) in (element_type, "f32")]
    if not fitting:
        return NoCalls(f"its example call is not in {element_type}; name some with `samples`")
    return _varied(fitting[0], entry, dtype, subject)


def _element_type(call: ExampleCall) -> str:
    leaves = pytree.tree_leaves(list(call.values.values()))
    tensors = [v for v in leaves if isinstance(v, torch.Tensor)]
    floats = [t for t in tensors if t.is_floating_point()]
    narrowest = min(floats, key=lambda t: t.element_size(), default=None)
    if narrowest is None:
        return "f32"
    return NAME_OF_PYTORCH[str(narrowest.dtype).removeprefix("torch.")]


def _varied(
    call: ExampleCall, entry: Composite, dtype: torch.dtype, subject: Subject
) -> Iterator[Sample]:
    """Yield the call in a dtype, with other numbers, without gradients, and with other values of
    its plain arguments and other shapes of its tensors, unless the entry states them. Those that
    PyTorch refuses on the CPU are left out later."""
    differentiable = not subject.is_backward or entry is not subject.entry

    def prepared(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        copy = tensor.to(dtype) if tensor.dtype == torch.float32 else tensor.clone()
        return copy.requires_grad_(differentiable)

    usual = call.sample()
    others = (
        replace(call, values={**call.values, name: variant}).sample()
        for name, value in call.values.items()
        for variant in _other_values(value, name, entry) if name not in call.specified
    )  # fmt: skip
    kinds = (_signed, _large, *(() if call.specified else _RESHAPED))
    converted = (Sample(call.function, *usual.converted(kind)) for kind in kinds)
    # Gradients have the shapes of results, also for torch_xla's operators.
    broadcast = _broadcast(call) if differentiable and not call.specified else ()
    for varied in (usual, *others, *converted, *broadcast):
        arguments, keywords = varied.converted(prepared)
        yield Sample(call.function, arguments, keywords, reference=subject.original)
    if differentiable:
        arguments, keywords = usual.converted(prepared)
        yield without_gradients(Sample(call.function, arguments, keywords, "", subject.original))


def _signed(tensor: torch.Tensor) -> torch.Tensor:
    """Floats from (0, 1] to (-2, 2], in another order."""
    if not tensor.is_floating_point() or not tensor.dim():
        return tensor
    spread = tensor.to(torch.float32) * 4 - 2
    order = torch.randperm(tensor.numel(), generator=torch.Generator().manual_seed(2))
    return spread.reshape(-1)[order].reshape(tensor.shape).to(tensor.dtype)


def _large(tensor: torch.Tensor) -> torch.Tensor:
    """Floats from (0, 1] to (-128, 128], whose exponentials are infinite in f32."""
    return _signed(tensor) * 64 if tensor.is_floating_point() else tensor


_RESHAPED: tuple[Convert, ...] = (
    lambda tensor: tensor[:1],
    lambda tensor: tensor[:0],
    lambda tensor: tensor[..., :2],
    lambda tensor: torch.stack([tensor, _signed(tensor)]),
)
"""Tensors of size one, without elements, square if they have two rows, and of a higher rank."""


def _broadcast(call: ExampleCall) -> Iterator[Sample]:
    """The call with one row of each of its tensors, one after the other."""
    tensors = {n: v for n, v in call.values.items() if isinstance(v, torch.Tensor)}
    for name, tensor in tensors.items() if len(tensors) > 1 else ():
        if tensor.dim():
            yield replace(call, values={**call.values, name: tensor[:1]}).sample()


def _other_values(value: Any, name: str, entry: Composite) -> tuple[Any, ...]:
    """Other values of a plain argument: those that the entry's conditions list, if they do."""
    allowed = dict(entry.when.values).get(name)
    if allowed is not None:
        return tuple(other for other in allowed if other != value)
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, float):
        return (value * 0.5 + 0.25,)
    return (value + 1, value - 1) if isinstance(value, int) else ()


def _text(number: int, sample: Sample) -> str:
    """`sample 3: (float32[2, 3], 1, dim=1)`"""
    shown = [_shown(value) for value in sample.arguments]
    shown += [f"{name}={_shown(value)}" for name, value in sample.keywords.items()]
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
    """Return the same call with tensors that need no gradient."""
    arguments, keywords = sample.converted(torch.Tensor.detach)
    for value in pytree.tree_leaves((arguments, keywords)):
        if isinstance(value, torch.nn.Module):
            value.requires_grad_(False)
    return replace(sample, arguments=arguments, keywords=keywords)
