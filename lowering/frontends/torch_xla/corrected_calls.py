"""Calls that torch_xla 2.9 computes differently from PyTorch, corrected in recorded programs.

- A reduction over an empty list of dimensions, as in `x.amax()`: PyTorch reduces all dimensions,
  torch_xla none.
- `cumsum` of narrow integers and booleans: PyTorch returns i64, torch_xla the type of the operand,
  in which sums overflow.
- `count_nonzero`: PyTorch returns i64, torch_xla i32 that claims its operand's dtype and, with
  `dim`, its shape.
- Operators along a dimension, for tensors without dimensions, such as `torch.softmax(x, 0)`:
  torch_xla refuses them.
- The gradient of batch norm in evaluation: torch_xla reads the mean and the deviation of a batch.
- `masked_fill` with a complex number: torch_xla drops its imaginary part.
- Slices that begin or end before the first element, such as `x[:, -8:]` of three columns: torch_xla
  refuses them.

A running program has torch_xla's results. These kernels belong to the dispatch key of
`missing_kernels`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from composites.registry.operators import overload
from composites.torch_internals import decompositions
from lowering.frontends.protocols import Kernel
from lowering.frontends.torch_xla.value_guard import complex_number

Redispatch = Callable[..., Any]
"""Calls the operator below this dispatch key."""

_ATEN = torch.ops.aten
_REDUCTIONS = {
    "amax": 1, "amin": 1, "linalg_vector_norm": 2, "mean.dim": 1, "std.correction": 1,
    "std_mean.correction": 1, "sum.dim_IntList": 1, "var.correction": 1, "var_mean.correction": 1,
}  # fmt: skip
"""The position of the argument `dim`, by operator."""

_EMPTY_BY_DEFAULT = ("amax", "amin")
"""The operators whose `dim` is an empty list by default. For other operators it is None."""

WITH_DIMENSION = (
    "_log_softmax", "_log_softmax_backward_data", "_softmax", "_softmax_backward_data", "all.dim",
    "amax", "amin", "any.dim", "argmax", "argmin", "cummax", "cumprod", "cumsum", "flip", "gather",
    "index_add", "index_select", "kthvalue", "linalg_vector_norm", "logsumexp", "max.dim",
    "mean.dim", "median.dim", "min.dim", "norm.ScalarOpt_dim", "prod.dim_int", "scatter.src",
    "scatter.value", "scatter_add", "sort", "sort.stable", "std.correction",
    "std_mean.correction", "sum.dim_IntList", "topk", "var.correction", "var_mean.correction",
)  # fmt: skip
"""Operators along a dimension. Their results have no dimensions if the first operand has none."""


def corrections() -> Iterator[tuple[Any, Callable[[Redispatch], Kernel]]]:
    """Operators, each with the function that makes its kernel."""
    for name, index in _REDUCTIONS.items():
        default = () if name in _EMPTY_BY_DEFAULT else None
        yield overload(f"aten::{name}"), _reduction(index, default)
    yield _ATEN.cumsum.default, _scan
    yield _ATEN.count_nonzero.default, _count
    yield _ATEN.count_nonzero.dim_IntList, _count
    yield _ATEN.masked_fill.Scalar, _filling
    yield _ATEN.native_batch_norm_backward.default, _normalization
    yield _ATEN.slice_copy.Tensor, partial(_slice, index=1)
    yield _ATEN.slice_scatter.default, partial(_slice, index=2)


def _normalization(redispatch: Redispatch) -> Kernel:
    operator = _ATEN.native_batch_norm_backward.default

    def kernel(*arguments: Any) -> Any:
        train = arguments[7]
        return redispatch(*arguments) if train else decompositions()[operator](*arguments)

    return kernel


def _reduction(index: int, default: tuple[int, ...] | None) -> Callable[[Redispatch], Kernel]:
    def correction(redispatch: Redispatch) -> Kernel:
        def kernel(*arguments: Any, **keywords: Any) -> Any:
            positional = [*arguments]
            dim = positional[index] if len(positional) > index else keywords.get("dim", default)
            if dim is not None and len(dim) == 0:
                every = list(range(arguments[0].dim()))
                if len(positional) > index:
                    positional[index] = every
                else:
                    keywords["dim"] = every
            return redispatch(*positional, **keywords)

        return kernel

    return correction


def _scan(redispatch: Redispatch) -> Kernel:
    def kernel(self: Any, dim: int, *, dtype: torch.dtype | None = None) -> Any:
        if dtype is None and not (self.is_floating_point() or self.is_complex()):
            return redispatch(self.to(torch.int64), dim)
        return redispatch(self, dim, dtype=dtype)

    return kernel


def _count(redispatch: Redispatch) -> Kernel:
    def kernel(self: Any, dim: Any = None) -> Any:
        over = [dim] if isinstance(dim, int) else list(dim or range(self.dim()))
        return torch.sum(self != 0, over, dtype=torch.int64)

    return kernel


def _filling(redispatch: Redispatch) -> Kernel:
    def kernel(self: Any, mask: Any, value: Any) -> Any:
        if isinstance(value, complex) and self.is_complex():
            return torch.where(mask, complex_number(value, dtype=self.dtype), self)
        return redispatch(self, mask, value)

    return kernel


def _slice(redispatch: Redispatch, index: int) -> Kernel:
    """The kernel of an operator whose arguments from `index` on are those of a slice."""

    def kernel(*arguments: Any) -> Any:
        before, bounds = arguments[:index], arguments[index:]
        dim, start, end, step = bounds + (0, None, None, 1)[len(bounds) :]
        first = -arguments[0].shape[dim]
        start, end = (at if at is None else max(at, first) for at in (start, end))
        return redispatch(*before, dim, start, end, step)

    return kernel
