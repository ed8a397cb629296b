"""The entries that JAX programs can have: each is traced in an example call, with its gradient."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import torch

from composites.errors import CompositesError, UnusableFunctionError
from composites.torch_internals import pytree
from lowering.frontends.aten_in_jax.dtypes import jax_dtype
from lowering.jax_entries.definition import Definition
from lowering.jax_entries.entries import Entries
from lowering.sample_calls import ExampleCall, NoCalls, adapted, example_calls, keyword_only


@dataclass(frozen=True, slots=True)
class Availability:
    """The availability of an entry in JAX programs."""

    name: str
    """The entry's name with its namespace."""
    reason: str | None
    """The reason why programs cannot have it; None if they can."""

    @property
    def is_available(self) -> bool:
        return self.reason is None

    def __str__(self) -> str:
        return self.name if self.reason is None else f"{self.name}: {self.reason}"


def availability(entries: Entries, names: Sequence[str]) -> tuple[Availability, ...]:
    """See `composites.jax.available`."""
    chosen = entries.definitions if not names else [entries.find(n).definition for n in names]
    return tuple(Availability(d.entry.qualified, _reason(entries, d)) for d in chosen)


def _reason(entries: Entries, definition: Definition) -> str | None:
    if definition.entry.gradients:
        return None  # that of its forward's entry
    try:
        examples = find_examples(definition)
    except (CompositesError, ImportError) as error:
        return str(error)
    if isinstance(examples, NoCalls):
        return examples.reason
    try:
        trace_example(entries, definition, _uncertain(definition, examples[0]))
    except (CompositesError, UnusableFunctionError) as error:
        return str(error)
    return None


def find_examples(definition: Definition) -> tuple[ExampleCall, ...] | NoCalls:
    """Example calls with the arguments that the entry has in JAX.

    Raises:
        LoweringError: the entry has no arguments in JAX.
    """
    entry = definition.entry
    examples = example_calls(entry)
    if entry.op is None or entry.adapt is None or isinstance(examples, NoCalls):
        return examples
    try:
        values = adapted(entry.adapt, definition.function, *examples[0].arguments())
    except CompositesError as error:
        return NoCalls(str(error))
    names = keyword_only(definition.signature)
    call = replace(examples[0], values=values, keyword_only=names)
    return (replace(call, function=definition.function),)


def _uncertain(definition: Definition, example: ExampleCall) -> ExampleCall:
    """An example whose guessed numbers are one half: as a probability, 1 draws no numbers."""
    guessed = {
        a.name: 0.5
        for a in definition.signature.arguments
        if a.kind == "float"
        and not a.has_default
        and not a.optional
        and a.name not in example.specified
    }
    values = {name: guessed.get(name, value) for name, value in example.values.items()}
    return replace(example, values=values)


def trace_example(entries: Entries, definition: Definition, example: ExampleCall) -> None:
    """Trace a call of an entry, and its gradient if the entry has one.

    Raises:
        CompositesError: the call or the gradient is not available in JAX.
    """
    call, arrays = as_jax_call(entries, definition, example)
    jax.eval_shape(call, *arrays)
    floats = [n for n, array in enumerate(arrays) if jnp.issubdtype(array.dtype, jnp.inexact)]
    if floats and (definition.entry.derives or definition.backward is not None):

        def total(*selected: Any) -> Any:
            whole = list(arrays)
            for position, array in zip(floats, selected, strict=True):
                whole[position] = array
            results = jax.tree.leaves(call(*whole))
            real = [r for r in results if jnp.issubdtype(r.dtype, jnp.inexact)]
            return sum((jnp.sum(jnp.abs(r).astype(jnp.float32)) for r in real[:1]), jnp.zeros(()))

        jax.eval_shape(jax.grad(total, argnums=0), *(arrays[n] for n in floats))


def as_jax_call(
    entries: Entries, definition: Definition, example: ExampleCall
) -> tuple[Callable[..., Any], list[Any]]:
    """An example call as a function of arrays, and the arrays."""
    leaves, structure = pytree.tree_flatten(dict(example.values))
    tensors = {n: leaf for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
    function = entries.function(definition)

    def call(*arrays: Any) -> Any:
        filled = {**dict(enumerate(leaves)), **dict(zip(tensors, arrays, strict=True))}
        return function.call_operator(pytree.tree_unflatten(list(filled.values()), structure))

    return call, [_array(tensor) for tensor in tensors.values()]


def _array(tensor: torch.Tensor) -> jax.Array:
    # NumPy has neither bf16 nor floats shorter than f16.
    is_short = tensor.is_floating_point() and tensor.dtype.itemsize <= 2
    wide = tensor.float() if is_short else tensor
    return jnp.asarray(wide.numpy()).astype(jax_dtype(tensor.dtype))
