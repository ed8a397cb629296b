"""Running the graph of tensors, and reading it as StableHLO."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch_xla
import torch_xla.core.xla_model as xm

from lowering.frontends.torch_xla.tensors import DEVICE_TYPE
from lowering.stablehlo import Module

_XLAC = torch_xla._XLAC


class XlaRunningGraph:
    """See `lowering.frontends.protocols.RunningGraph`. Tensors have values immediately; results
    have values after the graph has run."""

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
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
        # Use bytecode: jaxlib cannot read large constants of booleans in torch_xla's text.
        bytecode = _XLAC._get_stablehlo(list(tensors), "", [], True)
        return Module.from_bytes(bytecode, "torch_xla's StableHLO")

    def run(self, tensors: Sequence[torch.Tensor]) -> None:
        # torch_xla.sync() computes all live tensors, and a larger graph may be fused differently.
        _XLAC._xla_sync_multi(list(tensors), [], True, True)

    def values(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.cpu()
