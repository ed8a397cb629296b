"""Calls of entries, on tensors of the CPU and on JAX arrays."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from composites.registry.operators import overload
from composites.registry.samples import samples_of as named_samples
from lowering.frontends.aten_in_jax.dtypes import jax_dtype
from lowering.jax_entries.definition import Definition
from lowering.sample_calls import adapted, bound, make_calls
from lowering.stablehlo import Module
from lowering.stablehlo.composites import find_composites, signature
from lowering.verification.opinfo import make_samples


@dataclass(frozen=True, slots=True)
class TorchCall:
    """A call with the arguments that an entry has in JAX, by name."""

    function: Callable[..., Any]
    values: Mapping[str, Any]
    keyword_only: frozenset[str]

    def tensors(self) -> list[torch.Tensor]:
        return [v for v in jax.tree.leaves(self.values) if isinstance(v, torch.Tensor)]

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results for other tensors."""
        filled = _filled(self.values, iter(tensors))
        positional = [v for name, v in filled.items() if name not in self.keyword_only]
        results = self.function(*positional, **{n: filled[n] for n in self.keyword_only})
        return [r for r in jax.tree.leaves(results) if isinstance(r, torch.Tensor)]

    def on_arrays(self, function: Callable[..., Any]) -> Callable[..., list[Any]]:
        """The same call as a function of arrays, with the arguments of the entry's operator."""
        call = getattr(function, "call_operator", lambda named: function(**named))
        return lambda *arrays: jax.tree.leaves(call(_filled(self.values, iter(arrays))))


def _filled(value: Any, tensors: Iterator[Any]) -> Any:
    # In the order of jax.tree: dictionaries by sorted keys.
    if isinstance(value, Mapping):
        filled = {name: _filled(value[name], tensors) for name in sorted(value)}
        return {name: filled[name] for name in value}
    if isinstance(value, list | tuple):
        return type(value)([_filled(item, tensors) for item in value])
    return next(tensors) if isinstance(value, torch.Tensor) else value


def array_of(tensor: torch.Tensor) -> Any:
    """A tensor as an array of the same type."""
    detached = tensor.detach().resolve_conj().contiguous()
    if detached.dtype.is_floating_point and detached.dtype.itemsize <= 2:  # bf16, 8-bit floats
        return jnp.asarray(detached.float().numpy()).astype(jax_dtype(detached.dtype))
    return jnp.asarray(detached.numpy())


def calls(definition: Definition, dtype: torch.dtype, most: int) -> list[TorchCall]:
    """Calls of an entry: of its samples, or of those of PyTorch's tests."""
    entry = definition.entry
    torch_calls: list[TorchCall] = []
    named = named_samples(entry)
    if named is not None:
        for arguments, keywords in make_calls(named, dtype, entry.qualified):
            torch_calls += _sample_calls(definition, arguments, keywords)
    elif entry.op is not None and entry.adapt is None:
        for sample in make_samples(entry.op, dtype, gradients=False):
            torch_calls += _operator_calls(definition, sample)
            if len(torch_calls) > 40 * most:
                break
    return torch_calls[:: max(len(torch_calls) // most, 1)][:most]


def _sample_calls(
    definition: Definition, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> list[TorchCall]:
    adapt = definition.entry.adapt
    try:
        if adapt is not None:
            return [_call(definition, adapted(adapt, definition.function, arguments, keywords))]
    except Exception:  # a call that the entry leaves alone
        return []
    return [_bound(definition, arguments, keywords)]


def _call(definition: Definition, values: Mapping[str, Any]) -> TorchCall:
    def detached(value: Any) -> Any:
        if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
            return type(value)(detached(item) for item in value)
        return value.detach().clone() if isinstance(value, torch.Tensor) else value

    keyword_only = frozenset(a.name for a in definition.signature.arguments if a.keyword_only)
    plain = {name: detached(value) for name, value in values.items()}
    return TorchCall(definition.function, plain, keyword_only)


def _bound(
    definition: Definition, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> TorchCall:
    """A call of an operator or a function, with its defaults."""
    call = _call(definition, bound(definition.signature, arguments, keywords))
    if definition.entry.op is None:
        return call
    return TorchCall(overload(definition.signature.qualified), call.values, call.keyword_only)


def _operator_calls(definition: Definition, sample: Any) -> list[TorchCall]:
    called = overload(definition.signature.qualified)
    recorded: list[TorchCall] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is called:
                recorded.append(_bound(definition, args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    try:
        with Watch(), torch.no_grad():
            sample.function(*sample.arguments, **sample.keywords)
    except Exception:  # a sample of another overload
        return []
    if recorded:
        return recorded
    try:  # operators that PyTorch decomposes before a mode sees them
        with torch.no_grad():
            called(*sample.arguments, **sample.keywords)
        return [_bound(definition, sample.arguments, sample.keywords)]
    except Exception:
        return []


def signatures(text: str) -> list[str]:
    """The composites of a program itself: names, versions, attributes, and types, sorted."""
    module = Module.parse(text)
    return sorted(
        str((s.name, s.version, str(s.attributes), s.operands, s.results))
        for composite in find_composites(module.ir)
        if "main" in str(composite.parent.attributes["sym_name"])
        for s in [signature(composite)]
    )


def composite_names(text: str) -> list[str]:
    """The names of a program's composites, sorted."""
    module = Module.parse(text)
    return sorted(signature(c).name for c in find_composites(module.ir))


def bits(values: Any) -> list[Any]:
    """The bits of results: for each, whether it is of JAX, its type, and its bytes."""
    return [
        (isinstance(x, jax.Array), getattr(x, "weak_type", None), np.asarray(x).dtype,
         np.shape(x), np.asarray(x).tobytes())
        for x in jax.tree.leaves(values)
    ]  # fmt: skip


def differentiable(arrays: Sequence[Any]) -> list[int]:
    """The numbers of those arrays that can have a gradient."""
    return [n for n, a in enumerate(arrays) if np.issubdtype(np.asarray(a).dtype, np.inexact)
            or a.dtype == jnp.bfloat16]  # fmt: skip
