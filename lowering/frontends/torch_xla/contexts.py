"""The lowering of a graph of tensors to HLO, by torch_xla's LoweringContext (seen in 2.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch_xla


def lowered(name: str, outputs: Sequence[torch.Tensor]) -> Any:
    """A context that has lowered the graph of some tensors.

    Raises:
        ValueError: there are none. torch_xla reads behind the end of its instructions then.
    """
    if not outputs:
        raise ValueError("it returns no tensor")
    context = torch_xla._XLAC.lowering.LoweringContext(name)
    context.build(list(outputs))
    return context
