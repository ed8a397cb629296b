"""Tensors that are the same every time, and what torch_xla has done with them."""

import torch
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
    """How many graphs torch_xla has compiled in this process."""
    data = metrics.metric_data("CompileTime")
    return data[0] if data else 0


def gradient_of(leaf: torch.Tensor) -> torch.Tensor:
    """What a backward has left."""
    assert leaf.grad is not None
    return leaf.grad
