"""Labels of calls, which torch_xla writes into the metadata of HLO instructions.

torch_xla keeps a stack of scopes for each thread, for its profiler. With metadata on, each node of
a graph keeps the stack at the time when the node was made, and the names of its instructions begin
with the stack.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch_xla

from composites import torch_internals
from composites.contexts import with_setting
from lowering.frontends.torch_xla.graph import graph_hlo
from lowering.frontends.torch_xla.value_guard import GUARD

_XLAC = torch_xla._XLAC

_PREFIX = "composites_"
_SCOPE = re.compile(rf"(?:^|/){_PREFIX}(\w+)\.\d+(?=/)")  # torch_xla numbers the scopes


class XlaLabels:
    """See `lowering.frontends.protocols.Labels`."""

    def kept(self) -> AbstractContextManager[None]:
        return with_setting(_XLAC._get_ir_debug, _XLAC._set_ir_debug, True)

    @contextmanager
    def label(self, text: str) -> Iterator[None]:
        scope = _XLAC.profiler.scope_pusher(f"{_PREFIX}{text}")
        try:
            yield
        finally:
            del scope  # its destructor leaves the scope

    def refusing_reads(self) -> AbstractContextManager[None]:
        return torch_internals.asking_key(GUARD)

    def hlo(self, tensors: Sequence[torch.Tensor]) -> bytes:
        with self.kept():  # torch_xla also reads this setting when it lowers
            return graph_hlo(tensors)

    def find_label(self, instruction: Any) -> str | None:
        labels = _SCOPE.findall(instruction.metadata.op_name)
        return labels[-1] if labels else None
