"""The decomposition of a call as a function of JAX arrays, with its gradients."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import torch

from composites.intermediates import recorded
from composites.torch_internals import pytree
from lowering.dispatch.autograd import gradients
from lowering.dispatch.backward import BackwardSpec, further_values
from lowering.dispatch.call import CallSpec
from lowering.frontends.aten_in_jax.dtypes import torch_dtype
from lowering.frontends.aten_in_jax.evaluation import evaluate
from lowering.frontends.aten_in_jax.recording import record
from lowering.frontends.aten_in_jax.table import has_rule
from lowering.frontends.jax import functions as jax_functions
from lowering.jax_entries.definition import Definition

Arrays = Callable[..., list[Any]]
"""A function of the operands that are present, which returns a list."""


@dataclass(frozen=True, slots=True)
class Structure:
    """The structure in which a call returns its results."""

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
    structures: list[Structure] = []

    def whole(*operands: Any) -> Any:
        with recorded() as named:
            results = entry.exposed(spec.call(definition.function, *operands))
        extra = further_values(spec, operands, named) if saved else []
        if definition.is_jax:
            flat, tree = jax.tree.flatten(results)
            structures[:] = [Structure((True,) * len(flat), partial(jax.tree.unflatten, tree))]
        else:
            flat, structure = pytree.tree_flatten(results)
            present = tuple(isinstance(result, torch.Tensor) for result in flat)
            structures[:] = [Structure(present, partial(pytree.tree_unflatten, treespec=structure))]
        return [*flat, *extra]

    if definition.is_jax:

        def of_arrays(*arrays: Any) -> list[Any]:
            return [jnp.asarray(result) for result in whole(*spread(arrays, types))]

        jax.eval_shape(of_arrays, *(t for t in types if t is not None))
        return of_arrays, structures[0]
    with torch.no_grad():
        graph = record(whole, types)
    return lambda *arrays: evaluate(graph, arrays), structures[0]


def backward(
    definition: Definition,
    derived: BackwardSpec,
    operands: Sequence[Any | None],
    unsaved: Sequence[Any] = (),
) -> Arrays:
    """The gradient of the decomposition, for `backward: derive`.

    Args:
        operands: types of the backward's operands.
        unsaved: types of the forward's operands that were not saved, if they come last.
    """
    count, types = len(operands), [*operands, *unsaved]

    def run(*values: Any) -> Any:
        return definition.entry.exposed(derived.spec.call(definition.function, *values))

    def pull(values: Sequence[Any], blank: Callable[[Any], Any], framework: Any) -> list[Any]:
        others = iter(values[count:])
        made = (lambda _: next(others)) if unsaved else blank
        return derived.pull(run, values[:count], made, framework)

    if definition.is_jax:
        return lambda *arrays: pull(list(spread(arrays, types)), _zeros, jax_functions)
    graph = record(lambda *tensors: pull(tensors, _zero_tensor, gradients), types)
    return lambda *arrays: evaluate(graph, arrays)


def _zeros(type_: Any) -> Any:
    return jnp.zeros(type_.shape, type_.dtype)


def _zero_tensor(type_: Any) -> torch.Tensor:
    return torch.zeros(type_.shape, dtype=torch_dtype(type_.dtype))


def differentiable(
    definition: Definition,
    spec: CallSpec,
    types: Sequence[Any | None],
    needed: Sequence[bool],
) -> tuple[bool, ...]:
    """For each result, whether PyTorch gives it a gradient."""
    if definition.is_jax:
        return ()
    requires_grad: list[bool] = []

    def run(*operands: torch.Tensor | None) -> Any:
        with torch.enable_grad():  # type: ignore[no-untyped-call]
            leaves = [
                t if t is None else t.detach().requires_grad_(asked)
                for t, asked in zip(operands, needed, strict=True)
            ]
            results = definition.entry.exposed(spec.call(definition.function, *leaves))
        requires_grad[:] = [result.requires_grad for result in pytree.tree_leaves(results)]
        return [result.detach() for result in pytree.tree_leaves(results)]

    record(run, types, decompose=False)
    return tuple(requires_grad)


class OperatorBackward:
    """The computation of PyTorch's autograd after an operator: a graph of operators, one of which
    has an entry."""

    def __init__(
        self,
        operator: Any,
        spec: CallSpec,
        types: Sequence[Any | None],
        grads: Sequence[Any | None],
        needed: Sequence[bool],
        backward: Any,
    ) -> None:
        present = tuple(grad is not None for grad in grads)
        every = tuple(range(len(types)))
        derived = BackwardSpec(spec, types, present, tuple(needed), every)

        def of_tensors(*tensors: torch.Tensor | None) -> list[torch.Tensor]:
            run = partial(spec.call, operator)
            return derived.pull(run, tensors, _zero_tensor, gradients, replaces=False)

        self.backward = backward
        self._operator = operator
        self._returns_list = spec.form.operator.returns_list
        operands = [*(grad for grad in grads if grad is not None), *types]
        self._graph = record(of_tensors, operands, decompose=False, kept=backward)

    def run(
        self,
        arrays: Sequence[Any],
        results: Sequence[Any],
        claim: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any],
    ) -> list[Any]:
        """The gradients that are needed.

        Args:
            arrays: gradients and operands that are present.
            results: of the forward.
            claim: see `evaluate`.
        """

        def claimed(target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            if target == self._operator:
                return results if len(results) > 1 or self._returns_list else results[0]
            answer = claim(target, arguments, keywords)
            return run_operator(target, arguments, keywords) if answer is NotImplemented else answer

        return evaluate(self._graph, arrays, claim=claimed)


def run_operator(target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The result of an operator on arrays; NotImplemented if it has a rule, which the caller
    uses."""
    if has_rule(target):
        return NotImplemented
    leaves, structure = jax.tree.flatten((arguments, keywords), is_leaf=lambda leaf: leaf is None)
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    shapes: list[Any] = []

    def of_tensors(*tensors: torch.Tensor) -> Any:
        inputs = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            inputs[place] = tensor
        positional, named = jax.tree.unflatten(structure, inputs)
        results = target(*positional, **named)
        shapes[:] = [pytree.tree_flatten(results)]
        return results

    with torch.no_grad():
        graph = record(of_tensors, [leaves[place] for place in places])
    flat, spec = shapes[0]
    arrays = iter(evaluate(graph, [leaves[place] for place in places]))
    filled = [next(arrays) if isinstance(leaf, torch.Tensor) else None for leaf in flat]
    return pytree.tree_unflatten(filled, spec)


def spread(arrays: Sequence[Any], types: Sequence[Any | None]) -> Iterator[Any]:
    """Operands in the composite's order, with None for absent ones."""
    present = iter(arrays)
    return (None if type_ is None else next(present) for type_ in types)


def stand_in(type_: Any) -> torch.Tensor:
    """A tensor with the shape and dtype of an array, for conditions and attributes. A size
    that is a symbol is any number."""
    sizes = [size if isinstance(size, int) else 2 for size in type_.shape]
    return torch.empty(sizes, dtype=torch_dtype(type_.dtype), device="meta")
