"""The StableHLO of one example call of an entry. The call is recorded and not run.

`composites show` prints it. The arguments are those of `lowering.example_calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from composites.allowlist import resolve
from composites.registry.catalog import Catalog
from composites.registry.model import Composite
from composites.registry.operators import find_operator
from lowering import activation
from lowering.example_calls import example_call
from lowering.export.api import export


def example_text(entry: Composite, catalog: Catalog) -> str | None:
    """The StableHLO of a call of the entry's operator, with nothing else turned on but its
    backward; None if no arguments can be guessed.

    Raises:
        CompositesError: the entry cannot be turned on, or its decomposition fails.
        MissingPackageError: torch_xla is not installed.
    """
    made = activation.backend()
    call = None if entry.op is None else example_call(entry, find_operator(entry.op))
    if call is None:
        return None
    with _Moves() as moves:
        call("cpu")
    module = _Example(call, made.frontend.tensors.device_type)
    with activation.all_off():
        installation = activation.install_from(catalog, resolve([entry.qualified], catalog))
        try:
            return export(module, moves.seen, ops=()).mlir
        finally:
            installation.remove()


class _Example(torch.nn.Module):
    """An example call as a module. Its arguments take the places of the tensors that the call
    makes."""

    def __init__(self, call: Callable[[str], Any], device: str) -> None:
        super().__init__()
        self._call = call
        self._device = device

    def forward(self, *operands: torch.Tensor) -> Any:
        with _Moves(operands):
            return self._call(self._device)


class _Moves(TorchFunctionMode):
    """Sees the tensors that an example call moves to its device, or gives others instead."""

    def __init__(self, given: Sequence[torch.Tensor] | None = None) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []
        self._given = None if given is None else iter(given)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is not torch.Tensor.to or not isinstance(args[1], str | torch.device):
            return func(*args, **(kwargs or {}))
        self.seen.append(args[0])
        return args[0] if self._given is None else next(self._given)
