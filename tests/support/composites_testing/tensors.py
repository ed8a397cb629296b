"""Tensors that are the same every time, and what torch_xla has done with them."""

from collections.abc import Sequence

import torch
import torch_xla
import torch_xla.debug.metrics as metrics


def values(
    *shape: int,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    scale: float = 1,
    device: str = "xla",
) -> torch.Tensor:
    """Normally distributed values, computed on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(shape, generator=generator)).to(dtype).to(device)


def compilations() -> int:
    """The number of graphs that torch_xla has compiled in this process."""
    data = metrics.metric_data("CompileTime")
    return data[0] if data else 0


def gradient_of(leaf: torch.Tensor) -> torch.Tensor:
    """The gradient that a backward left in a leaf."""
    assert leaf.grad is not None
    return leaf.grad


def lazy_text(*tensors: torch.Tensor) -> str:
    """The lazy graph of tensors."""
    return str(torch_xla._XLAC._get_xla_tensors_text(list(tensors)))


def hlo_text(*tensors: torch.Tensor) -> str:
    """The graph of tensors, in HLO."""
    return str(torch_xla._XLAC._get_xla_tensors_hlo(list(tensors)))


def execute(tensors: Sequence[torch.Tensor]) -> None:
    """Execute the graph of these tensors and of no others.

    torch_xla.sync() takes in whatever else is alive, which right after backward() is not the same
    every time: the thread of the autograd engine lets go of its last tensors when it gets to it.
    Another graph can be fused in another way, and differ in the last bit, with composites or not.
    """
    torch_xla._XLAC._xla_sync_multi(list(tensors), [], True, True)
