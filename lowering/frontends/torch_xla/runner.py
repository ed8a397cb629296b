"""Running the graph of given tensors, and reading it as StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch_xla
import torch_xla.core.xla_model as xm

from lowering.stablehlo import Module

_XLAC = torch_xla._XLAC


class XlaRunning:
    """See `lowering.frontends.protocols.Running`."""

    def run(self, tensors: Sequence[torch.Tensor]) -> None:
        # torch_xla.sync() takes in whatever else is alive, and a graph with more in it may be fused
        # in another way.
        _XLAC._xla_sync_multi(list(tensors), [], True, True)

    def stablehlo(self, tensors: Sequence[torch.Tensor]) -> Module:
        # As bytecode: jaxlib does not read how torch_xla's text has large constants of booleans.
        bytecode = _XLAC._get_stablehlo(list(tensors), "", [], True)
        return Module.from_bytes(bytecode, "torch_xla's StableHLO")

    def set_random_state(self, state: int) -> None:
        xm.set_rng_state(state)
