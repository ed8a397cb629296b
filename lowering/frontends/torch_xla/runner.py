"""Running the graph of given tensors, and reading it as StableHLO."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch_xla
import torch_xla.core.xla_model as xm

from lowering.frontends.torch_xla.tensors import DEVICE_TYPE
from lowering.stablehlo import Module

_XLAC = torch_xla._XLAC


class XlaRunningGraph:
    """See `lowering.frontends.protocols.RunningGraph`. Tensors have their values at once; results
    have values when the graph has run."""

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().clone()
        # A 0-d tensor from the CPU would be a number, and numbers are constants.
        if not copy.dim():
            return copy.reshape(1).to(DEVICE_TYPE).reshape(())
        return copy.to(DEVICE_TYPE)

    @contextmanager
    def call(self) -> Iterator[None]:
        xm.set_rng_state(0)
        yield

    def stablehlo(self, tensors: Sequence[torch.Tensor]) -> Module:
        # As bytecode: jaxlib does not read how torch_xla's text has large constants of booleans.
        bytecode = _XLAC._get_stablehlo(list(tensors), "", [], True)
        return Module.from_bytes(bytecode, "torch_xla's StableHLO")

    def run(self, tensors: Sequence[torch.Tensor]) -> None:
        # torch_xla.sync() takes in whatever else is alive, and a graph with more in it may be fused
        # in another way.
        _XLAC._xla_sync_multi(list(tensors), [], True, True)

    def values(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.cpu()
