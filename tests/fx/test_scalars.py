"""Calls with `dim` on tensors without dimensions, which PyTorch takes as vectors of one element."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from composites_testing.modules import Calling
from torch import Tensor
from torch.nn import functional as F

import composites
from composites.torch_internals import pytree


def first(x: Tensor) -> Tensor:
    """The index of the only element."""
    return torch.zeros((), dtype=torch.int64, device=x.device)


def row(x: Tensor) -> Tensor:
    return torch.zeros(1, dtype=torch.int64, device=x.device)


WITH_GRADIENT: Mapping[str, Callable[[Tensor, int], Any]] = {
    "amax": lambda x, d: x.amax(d),
    "aminmax": lambda x, d: torch.aminmax(x, dim=d),
    "cosine_similarity": lambda x, d: F.cosine_similarity(x, x * 2, d),
    "cummax": lambda x, d: x.cummax(d),
    "cummin": lambda x, d: x.cummin(d),
    "cumprod": lambda x, d: x.cumprod(d),
    "cumsum": lambda x, d: x.cumsum(d),
    "flip": lambda x, d: x.flip(d),
    "gather": lambda x, d: (x.gather(d, first(x)), x.gather(d, row(x))),
    "index_add": lambda x, d: x.index_add(d, first(x), x * 2, alpha=3),
    "index_copy": lambda x, d: x.index_copy(d, first(x), x * 2),
    "index_fill": lambda x, d: x.index_fill(d, first(x), 4.0),
    "index_select": lambda x, d: x.index_select(d, row(x)),
    "kthvalue": lambda x, d: x.kthvalue(1, d),
    "log_softmax": lambda x, d: x.log_softmax(d),
    "logcumsumexp": lambda x, d: x.logcumsumexp(d),
    "logsumexp": lambda x, d: x.logsumexp(d),
    "max": lambda x, d: x.max(d, keepdim=True),
    "mean": lambda x, d: x.mean(d, keepdim=True),
    "median": lambda x, d: x.median(d),
    "min": lambda x, d: x.min(d),
    "mode": lambda x, d: x.mode(d),
    "movedim": lambda x, d: x.movedim(d, 0),
    "nanmean": lambda x, d: x.nanmean(d),
    "nanmedian": lambda x, d: x.nanmedian(d),
    "nanquantile": lambda x, d: x.nanquantile(0.5, d),
    "nansum": lambda x, d: x.nansum(d),
    "norm": lambda x, d: x.norm(dim=d),
    "normalize": lambda x, d: F.normalize(x, dim=d),
    "prod": lambda x, d: x.prod(d),
    "quantile": lambda x, d: x.quantile(0.5, d),
    "scatter": lambda x, d: (x.scatter(d, first(x), x * 2), x.scatter(d, first(x), 5.0)),
    "scatter_add": lambda x, d: x.scatter_add(d, first(x), x * 2),
    "scatter_reduce": lambda x, d: x.scatter_reduce(d, first(x), x * 2, "prod"),
    "scatter_reduce without": lambda x, d: x.scatter_reduce(
        d, first(x), x * 2, "mean", include_self=False
    ),
    "softmax": lambda x, d: x.softmax(d),
    "softmin": lambda x, d: F.softmin(x, d),
    "sort": lambda x, d: (x.sort(d), x.sort(dim=d, stable=True, descending=True)),
    "squeeze": lambda x, d: (x.squeeze(d), x.squeeze((d,))),
    "stack": lambda x, d: torch.stack([x, x * 2], d),
    "sum": lambda x, d: (x.sum(d), x.sum((d,), keepdim=True)),
    "topk": lambda x, d: x.topk(1, d),
    "transpose": lambda x, d: x.transpose(d, 0),
    "unfold": lambda x, d: x.unfold(d, 1, 1),
    "unsqueeze": lambda x, d: x.unsqueeze(d),
    "var": lambda x, d: (x.var(d, correction=0), x.std(d, correction=0)),
    "vector_norm": lambda x, d: torch.linalg.vector_norm(x, 3, d),
}

WITHOUT_GRADIENT: Mapping[str, Callable[[Tensor, int], Any]] = {
    "all": lambda x, d: (x.all(d), (x > 0).all((d,))),
    "any": lambda x, d: (x.any(d), (x > 0).any((d,))),
    "argmax": lambda x, d: (x.argmax(d), x.argmax(d, keepdim=True)),
    "argmin": lambda x, d: x.argmin(d),
    "argsort": lambda x, d: x.argsort(d),
    "count_nonzero": lambda x, d: x.count_nonzero(d),
    "cumsum of i32": lambda x, d: x.int().cumsum(d),
    "max of i32": lambda x, d: x.int().max(d),
    "by default": lambda x, d: (x.sort(), x.topk(1), x.kthvalue(1), x.mode(), x.argsort()),
    "without": lambda x, d: (x.argmax(), x.permute(()), x.t(), x.sum(()), x.any(())),
}


def tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


class Scalar(torch.nn.Module):
    """All calls with a parameter, with a loss of their results."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(2.5))

    def forward(self) -> Tensor:
        results = [
            result.sum() * number
            for number, (call, d) in enumerate(itertools.product(WITH_GRADIENT.values(), (0, -1)))
            for result in tensors(call(self.weight, d))
            if result.is_floating_point()
        ]
        return torch.stack(results).sum()


def test_results() -> None:
    calls = {**WITH_GRADIENT, **WITHOUT_GRADIENT}

    def every(x: Tensor) -> list[Tensor]:
        return [t for call in calls.values() for d in (0, -1) for t in tensors(call(x, d))]

    x = torch.tensor(2.5)
    program = composites.export(Calling(every), (x,), ops=[], frontend="fx")
    results = [torch.from_numpy(result.copy()) for result in program.run(x).values()]
    torch.testing.assert_close(results, every(x))


def test_gradients() -> None:
    module = Scalar()
    program = composites.export(module, (), train=True, ops=[], frontend="fx")
    results = program.run({"param:weight": module.weight.detach()})
    module().backward()
    assert module.weight.grad is not None
    found = torch.from_numpy(results["grad:weight"].copy())
    torch.testing.assert_close(found, module.weight.grad)
