"""The decomposition of a call as a function of JAX arrays, with its gradients."""

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import torch

import lowering.frontends.fx.derived  # noqa: F401  (it registers its rules)
from composites.contexts import with_value
from composites.intermediates import recorded
from composites.torch_internals import pytree
from lowering.dispatch.autograd import gradients
from lowering.dispatch.backward import BackwardSpec, further_values
from lowering.dispatch.call import CallSpec
from lowering.frontends.aten_in_jax.dtypes import torch_dtype
from lowering.frontends.aten_in_jax.table import RULES
from lowering.frontends.fx import capture
from lowering.frontends.fx.apart import record
from lowering.frontends.jax import functions as jax_functions
from lowering.jax_entries.definition import Definition

Arrays = Callable[..., list[Any]]
"""A function of the present operands, which returns a list."""


@dataclass(frozen=True, slots=True)
class Structure:
    """The structure in which a call returns its results."""

    present: tuple[bool, ...]
    """For each result, True if it is an array. An operator returns None for a gradient that its
    mask leaves out."""
    nested: Callable[[list[Any]], Any]
    """Converts the list of all results to the structure that the caller expects."""

    def __call__(self, arrays: Sequence[Any]) -> Any:
        rest = iter(arrays)
        return self.nested([next(rest) if is_array else None for is_array in self.present])


def forward(
    definition: Definition, spec: CallSpec, types: Sequence[Any | None], *, saved: bool
) -> tuple[Arrays, Structure]:
    """The decomposition for operands of `types`, and the structure of a call's results.

    Args:
        types: types of the operands, in the composite's order; None for an absent operand.
        saved: True if further results of `saves` follow.
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

        def run_on_arrays(*arrays: Any) -> list[Any]:
            return [jnp.asarray(result) for result in whole(*spread(arrays, types))]

        jax.eval_shape(run_on_arrays, *(t for t in types if t is not None))
        return run_on_arrays, structures[0]
    run = record(whole, types)
    return run, structures[0]


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
        rest = iter(values[count:])
        made = (lambda _: next(rest)) if unsaved else blank
        return derived.pull(run, values[:count], made, framework)

    if definition.is_jax:
        return lambda *arrays: pull(list(spread(arrays, types)), _zeros, jax_functions)
    return record(lambda *tensors: pull(tensors, _zero_tensor, gradients), types)


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
    """For each result, True if PyTorch gives it a gradient."""
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

    record(run, types)
    return tuple(requires_grad)


def operator_backward(
    operator: Any,
    spec: CallSpec,
    types: Sequence[Any | None],
    grads: Sequence[Any | None],
    needed: Sequence[bool],
    backward: Any,
) -> Callable[..., list[Any]]:
    """The gradients that PyTorch's autograd computes after an operator, as a function. The function
    takes a function that computes the results of `backward`, an operator that autograd calls; the
    present gradients and operands; and the operator's results.
    """
    present = tuple(grad is not None for grad in grads)
    derived = BackwardSpec(spec, types, present, tuple(needed), tuple(range(len(types))))
    results: list[Any] = []

    def forward(*arguments: Any, **keywords: Any) -> Any:
        described = capture.describe(operator, arguments, keywords)
        made = pytree.tree_map_only(torch.Tensor, capture.placeholder, described)
        results[:] = pytree.tree_leaves(made)
        return made

    def claimed(*arguments: Any, **keywords: Any) -> Any:
        described = capture.describe(backward, arguments, keywords)
        return capture.node(_call_backward, arguments, keywords, described)

    def run_on_tensors(*tensors: torch.Tensor | None) -> list[torch.Tensor]:
        run = partial(spec.call, operator)
        return derived.pull(run, tensors, _zero_tensor, gradients, replaces=False)

    operands = [*(grad for grad in grads if grad is not None), *types]
    kernels = {operator: [forward], backward: [claimed]}
    graph = record(run_on_tensors, operands, kernels, results)

    def run(called: Callable[..., Any], *arrays: Any) -> list[Any]:
        with with_value(_CALLED, called):
            return graph(*arrays)

    return run


_CALLED: ContextVar[Callable[..., Any]] = ContextVar("_CALLED")
"""The function that computes the results of a backward operator."""


def _call_backward(dtypes: Any, /, *arguments: Any, **keywords: Any) -> Any:
    """One call of a backward operator, as a rule of `lowering.frontends.aten_in_jax`."""
    return _CALLED.get()(*arguments, **keywords)


RULES[_call_backward] = _call_backward


def spread(arrays: Sequence[Any], types: Sequence[Any | None]) -> Iterator[Any]:
    """Operands in the composite's order, with None for absent operands."""
    present = iter(arrays)
    return (None if type_ is None else next(present) for type_ in types)


def stand_in(type_: Any) -> torch.Tensor:
    """A tensor with the shape and dtype of an array, for conditions and attributes. A size that is
    a symbol becomes an arbitrary number."""
    sizes = [size if isinstance(size, int) else 2 for size in type_.shape]
    return torch.empty(sizes, dtype=torch_dtype(type_.dtype), device="meta")
