"""Decompositions in place of lowerings that torch_xla lacks, while a program is recorded.

torch_xla computes an operator without a lowering on the CPU. A recorded program has no values for
that, so it uses the decomposition of PyTorch or of this project, if there is one. The kernels that
do this belong to a dispatch key that no tensor has. The key is below autograd, so gradients are
those of the operator, and threads that record nothing never reach these kernels.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

import torch

from composites import torch_internals
from composites.contexts import with_value
from composites.operators.unlowered import DECOMPOSITIONS, OF_TRANSFORMERS
from composites.registry.operators import overload
from composites.torch_internals import DispatchKeySet, DispatchState, pytree
from lowering.frontends.autocast import autocast
from lowering.frontends.errors import NoKernelError, ValueReadError
from lowering.frontends.protocols import Kernel
from lowering.frontends.registration import register_at_key, register_in_namespace
from lowering.frontends.torch_xla import DISPATCH_KEY
from lowering.frontends.torch_xla.corrected_calls import WITH_DIMENSION, Redispatch, corrections
from lowering.frontends.torch_xla.tensors import DEVICE_TYPE
from lowering.frontends.torch_xla.value_guard import values_unreadable

_KEY_NAME = "Fake"
_KEY = torch_internals.parse_key(_KEY_NAME)
"""A dispatch key directly below functionalization that no tensor has and that PyTorch does not
use."""


_IN_PART = frozenset(
    [
        "aten::_adaptive_avg_pool2d",
        "aten::addmm",
        "aten::norm.ScalarOpt_dim",
        "aten::scatter_reduce.two",
    ]
)
"""Operators of which torch_xla lowers only some calls."""

_TRANSFORMERS = "transformers"
"""The namespace of operators of transformers."""

_NOT_RIGHT = frozenset(
    [
        *("aten::randperm", "aten::conv_tbc", "aten::conv_tbc_backward", "aten::_grouped_mm"),
        *(f"{_TRANSFORMERS}::{name}" for name in OF_TRANSFORMERS),
    ]
)
"""Operators whose lowering has no StableHLO, or returns wrong numbers (torch_xla 2.9.0), or
reads the values or the memory of tensors."""

_UNDERWAY: ContextVar[frozenset[Any]] = ContextVar("underway", default=frozenset())
"""The operators that this thread is decomposing."""


@contextmanager
def decomposed() -> Iterator[None]:
    """A context in which operators without a lowering are decomposed like in PyTorch."""
    _register()
    if "transformers.integrations.moe" in sys.modules:
        _register_of_transformers()
    with torch_internals.including_key(_KEY):
        yield


@cache
def _register() -> object:
    """Register the kernels. They stay for the life of the process."""
    top = torch_internals.fresh_dispatch_state()
    available = {**torch_internals.decompositions(), **DECOMPOSITIONS}
    kernels = {
        operator: _decomposing(operator, decomposition, top)
        for operator, decomposition in available.items()
        if _may_lack_lowering(operator.name())
    }
    kernels |= {operator: _correcting(operator, correct) for operator, correct in corrections()}
    named = {operator.name().removeprefix("aten::"): k for operator, k in kernels.items()}
    for name in WITH_DIMENSION:
        stock = overload(f"aten::{name}")
        below = named.get(name) or _correcting(stock, lambda redispatch: redispatch)
        named[name] = _taking_scalars(below)
    return register_at_key(_KEY_NAME, named)


@cache
def _register_of_transformers() -> object:
    """Register the kernels of operators that transformers defines when it is imported."""
    top, operators = torch_internals.fresh_dispatch_state(), torch.ops.transformers
    kernels = {
        name: _decomposing(getattr(operators, name).default, decomposition, top)
        for name, decomposition in OF_TRANSFORMERS.items()
        if hasattr(operators, name)
    }
    return register_in_namespace(_TRANSFORMERS, _KEY_NAME, kernels)


def _may_lack_lowering(qualified: str) -> bool:
    """Return whether torch_xla has no kernel for an operator, and PyTorch does not decompose it
    above the backend. A kernel of an entry that is on does not count."""
    own = "RegisterXLA" in torch_internals.kernel_origin(qualified, DISPATCH_KEY)
    return (
        qualified in _IN_PART | _NOT_RIGHT or not own
    ) and not torch_internals.is_implicit_autograd(qualified)


def _asking_no_more(below: Redispatch, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Make the call without this key, because AOTAutograd traces, and calls the kernels of each key
    again. The traced operators run with the key."""
    with torch_internals.excluding_key(_KEY):
        return below(*arguments, **keywords)


def _correcting(overload: Any, correction: Callable[[Redispatch], Kernel]) -> Kernel:
    def kernel(keys: DispatchKeySet, *arguments: Any, **keywords: Any) -> Any:
        below = partial(overload.redispatch, keys.remove(_KEY))
        if torch_internals.in_python_dispatcher():
            return _asking_no_more(below, arguments, keywords)
        return correction(below)(*arguments, **keywords)

    return kernel


def _taking_scalars(below: Kernel) -> Kernel:
    """A kernel that treats tensors without dimensions as vectors of one element."""

    def widened(value: Any) -> Any:
        is_scalar = isinstance(value, torch.Tensor) and value.dim() == 0
        return value.reshape(1) if is_scalar else value

    def kernel(keys: DispatchKeySet, self: Any, *operands: Any, **keywords: Any) -> Any:
        if self.dim() > 0 or torch_internals.in_python_dispatcher():
            return below(keys, self, *operands, **keywords)
        results = below(keys, *map(widened, (self, *operands)), **keywords)
        return pytree.tree_map_only(torch.Tensor, lambda result: result.reshape(()), results)

    return kernel


def _decomposing(overload: Any, decomposition: Kernel, top: DispatchState) -> Kernel:
    def kernel(keys: DispatchKeySet, *arguments: Any, **keywords: Any) -> Any:
        if torch_internals.in_python_dispatcher():
            below = partial(overload.redispatch, keys.remove(_KEY))
            return _asking_no_more(below, arguments, keywords)
        try:
            if overload.name() not in _NOT_RIGHT:
                return overload.redispatch(keys.remove(_KEY), *arguments, **keywords)
        except ValueReadError as error:
            # PyTorch's kernel for all backends may read values, unlike the decomposition.
            replaced = isinstance(error, NoKernelError) or overload in DECOMPOSITIONS
            if not replaced or overload in _UNDERWAY.get():  # it calls the operator itself
                raise
        # The call arrived below functionalization. The decomposition starts above it, because it
        # may take views and write to tensors that it made.
        with (
            torch_internals.dispatching_from(top),
            torch_internals.including_key(_KEY),
            values_unreadable(),
            torch.no_grad(),
            autocast(DEVICE_TYPE, None),
            with_value(_UNDERWAY, _UNDERWAY.get() | {overload}),
        ):
            wrapped = pytree.tree_map_only(
                torch.Tensor, torch_internals.functional, (arguments, keywords)
            )
            results = decomposition(*wrapped[0], **wrapped[1])
            return pytree.tree_map_only(torch.Tensor, torch_internals.functionalized, results)

    return kernel
