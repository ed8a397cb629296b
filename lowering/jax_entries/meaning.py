"""The decomposition of a call as a function of JAX arrays, with its gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import torch

from composites.intermediates import handled, recorded
from composites.torch_internals import pytree
from lowering.dispatch.autograd.gradients import gradients_of, replacement
from lowering.dispatch.call import CallSpec
from lowering.dispatch.saving import further_values, saved_intermediates
from lowering.frontends import aten_in_jax
from lowering.frontends import jax as jax_functions
from lowering.jax_entries.definition import Definition

Arrays = Callable[..., list[Any]]
"""A function of the operands that are present, which returns a list."""


@dataclass(frozen=True, slots=True)
class Structure:
    """How a call returns its results."""

    present: tuple[bool, ...]
    """For each result, whether it is an array. An operator gives None in the place of a gradient
    that its mask leaves out."""
    nested: Callable[[list[Any]], Any]
    """The results as the caller gets them, of all of them in a list."""

    def __call__(self, arrays: Sequence[Any]) -> Any:
        rest = iter(arrays)
        return self.nested([next(rest) if is_array else None for is_array in self.present])


def forward(
    definition: Definition, spec: CallSpec, types: Sequence[Any | None], *, saved: bool
) -> tuple[Arrays, Structure]:
    """The decomposition for operands of these types, and how a call returns its results.

    Args:
        types: of the operands, in the composite's order; None for an absent one.
        saved: whether further results of `saves` follow.
    """
    entry = definition.entry
    found: list[Structure] = []

    def whole(*operands: Any) -> Any:
        with recorded() as named:
            results = entry.exposed(spec.call(definition.function, *operands))
        extra = further_values(entry, spec, operands, named) if saved else []
        if definition.is_jax:
            flat, tree = jax.tree.flatten(results)
            found[:] = [Structure((True,) * len(flat), partial(jax.tree.unflatten, tree))]
        else:
            flat, structure = pytree.tree_flatten(results)
            present = tuple(isinstance(result, torch.Tensor) for result in flat)
            found[:] = [Structure(present, partial(pytree.tree_unflatten, treespec=structure))]
        return [*flat, *extra]

    if definition.is_jax:

        def of_arrays(*arrays: Any) -> list[Any]:
            return [jnp.asarray(result) for result in whole(*spread(arrays, types))]

        jax.eval_shape(of_arrays, *(t for t in types if t is not None))
        return of_arrays, found[0]
    with torch.no_grad():
        graph = aten_in_jax.record(whole, types)
    return lambda *arrays: aten_in_jax.evaluate(graph, arrays), found[0]


def further_results(definition: Definition, spec: CallSpec, types: Sequence[Any | None]) -> Arrays:
    """What a backward takes besides operands and results."""
    entry = definition.entry

    def of_operands(*operands: Any) -> list[Any]:
        with recorded() as named:
            if any(target is None for _, target in entry.saved):
                spec.call(definition.function, *operands)
        return further_values(entry, spec, operands, named)

    if definition.is_jax:
        return lambda *arrays: of_operands(*spread(arrays, types))
    with torch.no_grad():
        graph = aten_in_jax.record(of_operands, types)
    return lambda *arrays: aten_in_jax.evaluate(graph, arrays)


def backward(
    definition: Definition,
    spec: CallSpec,
    types: Sequence[Any | None],
    grads: Sequence[Any | None],
    saved: Sequence[Any | None],
    taken: Sequence[int],
    wanted: Sequence[bool],
) -> Arrays:
    """The gradient of the decomposition, for `backward: derive`.

    Args:
        types: of the forward's operands.
        grads: types of the gradients of its results; None for one that is zero.
        saved: types of what the backward takes besides.
        taken: the positions of `saved` among operands, results and further results of the forward.
            Of an operand that is not among them, only the type matters.
        wanted: for each operand of the forward, whether its gradient is a result.
    """
    function, entry = definition.function, definition.entry
    count = sum(grad is not None for grad in grads)
    places = [taken.index(n) if n in taken else None for n in range(len(types))]
    first = len(types) + len(grads)

    def split(values: Sequence[Any], blank: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
        rest, kept = iter(values[:count]), values[count:]
        inputs = [
            kept[place] if place is not None else None if type_ is None else blank(type_)
            for place, type_ in zip(places, types, strict=True)
        ]
        return inputs, [None if grad is None else next(rest) for grad in grads]

    def run(*operands: Any) -> Any:
        return entry.exposed(spec.call(function, *operands))

    def named(kept: Sequence[Any]) -> dict[str, Any]:
        return saved_intermediates(entry, taken, kept, first)

    operands = [*(grad for grad in grads if grad is not None), *saved]
    if definition.is_jax:

        def of_arrays(*arrays: Any) -> list[Any]:
            inputs, given = split(
                list(spread(arrays, operands)), lambda type_: jnp.zeros(type_.shape, type_.dtype)
            )
            with handled(jax_functions.replacement(named(list(spread(arrays, operands))[count:]))):
                return jax_functions.gradients_of(run, inputs, wanted, given)

        return of_arrays

    def of_tensors(*tensors: torch.Tensor | None) -> list[torch.Tensor]:
        inputs, given = split(
            tensors,
            lambda type_: torch.zeros(type_.shape, dtype=aten_in_jax.torch_dtype(type_.dtype)),
        )
        with handled(replacement(named(tensors[count:]))):
            found = gradients_of(run, inputs, wanted, given, create_graph=False)
        return [gradient for gradient in found if gradient is not None]

    graph = aten_in_jax.record(of_tensors, operands)
    return lambda *arrays: aten_in_jax.evaluate(graph, arrays)


def differentiable(
    definition: Definition,
    spec: CallSpec,
    types: Sequence[Any | None],
    wanted: Sequence[bool],
) -> tuple[bool, ...]:
    """For each result, whether PyTorch gives it a gradient."""
    if definition.is_jax:
        return ()
    found: list[bool] = []

    def run(*operands: torch.Tensor | None) -> Any:
        with torch.enable_grad():  # type: ignore[no-untyped-call]
            leaves = [
                t if t is None else t.detach().requires_grad_(asked)
                for t, asked in zip(operands, wanted, strict=True)
            ]
            results = definition.entry.exposed(spec.call(definition.function, *leaves))
        found[:] = [result.requires_grad for result in pytree.tree_leaves(results)]
        return [result.detach() for result in pytree.tree_leaves(results)]

    aten_in_jax.record(run, types, decompose=False)
    return tuple(found)


class OperatorBackward:
    """What PyTorch's autograd does after an operator: a graph of operators, one of which has an
    entry."""

    def __init__(
        self,
        operator: Any,
        spec: CallSpec,
        types: Sequence[Any | None],
        grads: Sequence[Any | None],
        wanted: Sequence[bool],
        backward: Any,
    ) -> None:
        count = sum(grad is not None for grad in grads)

        def of_tensors(*tensors: torch.Tensor | None) -> list[torch.Tensor]:
            rest = iter(tensors[:count])
            given = [None if grad is None else next(rest) for grad in grads]
            found = gradients_of(
                lambda *operands: spec.call(operator, *operands),
                tensors[count:],
                wanted,
                given,
                create_graph=False,
            )
            return [gradient for gradient in found if gradient is not None]

        self.backward = backward
        self._operator = operator
        operands = [*(grad for grad in grads if grad is not None), *types]
        self._graph = aten_in_jax.record(of_tensors, operands, decompose=False, kept=backward)

    def run(
        self,
        arrays: Sequence[Any],
        results: Sequence[Any],
        claim: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any],
    ) -> list[Any]:
        """The gradients that are wanted.

        Args:
            arrays: gradients and operands that are present.
            results: of the forward.
            claim: see `evaluate`.
        """
        known = {
            node: results[0] if isinstance(node.meta["val"], torch.Tensor) else results
            for node in self._graph.module.graph.nodes
            if node.op == "call_function" and node.target == self._operator
        }

        def claimed(target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            found = claim(target, arguments, keywords)
            return run_operator(target, arguments, keywords) if found is NotImplemented else found

        return aten_in_jax.evaluate(self._graph, arrays, claim=claimed, known=known)


def run_operator(target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """An operator on arrays. NotImplemented if it has a rule, which the caller finds."""
    if aten_in_jax.has_rule(target):
        return NotImplemented
    leaves, structure = jax.tree.flatten((arguments, keywords), is_leaf=lambda leaf: leaf is None)
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    shapes: list[Any] = []

    def of_tensors(*tensors: torch.Tensor) -> Any:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        positional, named = jax.tree.unflatten(structure, given)
        results = target(*positional, **named)
        shapes[:] = [pytree.tree_flatten(results)]
        return results

    with torch.no_grad():
        graph = aten_in_jax.record(of_tensors, [leaves[place] for place in places])
    flat, spec = shapes[0]
    found = iter(aten_in_jax.evaluate(graph, [leaves[place] for place in places]))
    filled = [next(found) if isinstance(leaf, torch.Tensor) else None for leaf in flat]
    return pytree.tree_unflatten(filled, spec)


def spread(arrays: Sequence[Any], types: Sequence[Any | None]) -> Iterator[Any]:
    """Operands in the composite's order, with None in the place of absent ones."""
    present = iter(arrays)
    return (None if type_ is None else next(present) for type_ in types)


def stand_in(type_: Any) -> torch.Tensor:
    """A tensor with the shape and dtype of an array, for conditions and attributes. A size
    that is a symbol is any number."""
    sizes = [size if isinstance(size, int) else 2 for size in type_.shape]
    return torch.empty(sizes, dtype=aten_in_jax.torch_dtype(type_.dtype), device="meta")
