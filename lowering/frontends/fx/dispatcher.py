"""Kernels in PyTorch's dispatcher: the stock kernels, and this project's overrides."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from composites import torch_internals
from composites.registry.operators import Operator, overload
from composites.torch_internals import DispatchKeySet
from lowering.frontends.fx import AUTOGRAD_KEY, DISPATCH_KEY, FUNCTIONALIZATION_KEY, capture
from lowering.frontends.protocols import Kernel, Override, StockKernel
from lowering.frontends.registration import OPERATOR_NAMESPACE, Stack, keys_from


@dataclass(frozen=True, slots=True, eq=False)
class BackendOverride:
    """A kernel at the backend's key, which `capture` calls."""

    overload: Any
    kernel: Kernel

    def remove(self) -> None:
        kernels = capture.KERNELS.get(self.overload, [])
        capture.KERNELS[self.overload] = [kernel for kernel in kernels if kernel is not self.kernel]


class FxDispatching:
    """See `lowering.frontends.protocols.Dispatching`."""

    dispatch_key = DISPATCH_KEY
    autograd_key = AUTOGRAD_KEY
    functionalization_key = FUNCTIONALIZATION_KEY

    def __init__(self) -> None:
        self._stock: dict[tuple[str, str], StockKernel] = {}
        self._stacks: dict[tuple[str, str], Stack] = {}

    def stock_kernel(self, operator: Operator, dispatch_key: str) -> StockKernel:
        stack = (operator.qualified, dispatch_key)
        if stack not in self._stock:
            self._stock[stack] = StockKernel(
                self._call_boxed(operator, dispatch_key), keys_from(self, dispatch_key)
            )
        return self._stock[stack]

    def _call_boxed(self, operator: Operator, dispatch_key: str) -> Callable[..., Any]:
        if dispatch_key == self.dispatch_key:
            called = overload(operator.qualified)

            def recorded(keys: DispatchKeySet, *arguments: Any, **keywords: Any) -> Any:
                return capture.stock(called, arguments, keywords)

            return recorded
        return torch.library.get_kernel(operator.qualified, dispatch_key).call_boxed

    def override(self, operator: Operator, dispatch_key: str, kernel: Kernel) -> Override:
        called_overload = overload(operator.qualified)
        if dispatch_key == self.dispatch_key:
            return _at_backend(called_overload, kernel)
        torch_internals.keep_dynamo_out(kernel)
        called = self.stock_kernel(operator, dispatch_key).call_boxed
        name = operator.qualified
        stack = Stack(name, dispatch_key, with_keyset=True, stock=called, overload=called_overload)
        return self._stacks.setdefault((name, dispatch_key), stack).override(kernel)

    def implement(self, name: str, kernel: Kernel) -> Override:
        def called(*arguments: Any, **keywords: Any) -> Any:
            return capture.from_top(kernel, arguments, keywords)

        return _at_backend(overload(f"{OPERATOR_NAMESPACE}::{name}"), called)

    def tidy(self) -> None:
        for stack in self._stacks.values():
            stack.tidy()


def _at_backend(overload: Any, kernel: Kernel) -> BackendOverride:
    capture.KERNELS.setdefault(overload, [])
    capture.KERNELS[overload] = [*capture.KERNELS[overload], kernel]
    return BackendOverride(overload, kernel)
