"""Functions of tensors as functions of JAX arrays, recorded outside of programs."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from composites import torch_internals
from composites.torch_internals import pytree
from lowering.frontends.aten_in_jax.dtypes import torch_dtype
from lowering.frontends.aten_in_jax.table import NoRuleError
from lowering.frontends.errors import ValueReadError
from lowering.frontends.fx import (  # noqa: F401  (they register functions for operators)
    capture,
    creation,
    linear_algebra,
    random,
    strides,
)
from lowering.frontends.fx.capture import TracedTensor
from lowering.frontends.fx.lower import array_function
from lowering.frontends.fx.sizes import symbolize
from lowering.frontends.protocols import Kernel


class _WithoutReads(TorchFunctionMode):
    """A context in which `one_hot`, unlike on the CPU, does not read its operand."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        function = strides.one_hot if func is torch.nn.functional.one_hot else func
        return function(*args, **(kwargs or {}))


def record(
    function: Callable[..., Any],
    operands: Sequence[Any | None],
    kernels: Mapping[Any, Sequence[Kernel]] = MappingProxyType({}),
    further: Sequence[TracedTensor] = (),
) -> Callable[..., list[Any]]:
    """Record a function of tensors, and return it as a function of the present operands as arrays,
    which returns its results in a list.

    Args:
        function: returns tensors in any nesting; results that are None are left out.
        operands: arrays, or other objects with shape and dtype; None for an absent operand. The
            function receives a tensor for each array, and None for an absent operand.
        kernels: record calls of some operators. Other operators are recorded as themselves if they
            have rules, and otherwise decomposed.
        further: placeholders that kernels have made, which are further operands.

    Raises:
        NoRuleError: an operator has neither a rule nor a decomposition, or draws random numbers,
            or the function reads a value, holds a large tensor, or depends on a symbolic size.
    """
    present = [operand for operand in operands if operand is not None]
    writes = not any(map(torch_internals.decomposition_of, kernels))
    try:
        with capture.apart(kernels, writes=writes), symbolize([x.shape for x in present]) as shapes:
            inputs = [
                capture.placeholder(torch.empty(shape, dtype=torch_dtype(x.dtype), device="meta"))
                for x, shape in zip(present, shapes, strict=True)
            ]
            tensors = map(torch_internals.functional, inputs) if writes else iter(inputs)
            with capture.at_top(), _WithoutReads():
                results = function(*(None if x is None else next(tensors) for x in operands))
            leaves = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
            traced = [capture.traced(tensor) for tensor in leaves]
            computed, read, _ = array_function(traced, [*inputs, *further], for_all=False)
    except ValueReadError as error:
        raise NoRuleError(str(error)) from error
    return lambda *arrays: computed(*(arrays[position] for position in read))
