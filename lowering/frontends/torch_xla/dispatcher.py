"""Kernels in PyTorch's dispatcher: the stock kernels, and this project's overrides."""

from typing import Any

import torch

from composites import torch_internals
from composites.registry.operators import Operator, overload
from composites.torch_internals import DispatchKeySet
from lowering.frontends.protocols import Kernel, StockKernel
from lowering.frontends.registration import OPERATOR_NAMESPACE, OverridingKernel, Stack, keys_from
from lowering.frontends.torch_xla import AUTOGRAD_KEY, DISPATCH_KEY, FUNCTIONALIZATION_KEY

CRASHING = frozenset(["aten::_grouped_mm"])
"""Operators whose kernels of PyTorch 2.9, for all devices, read the memory of their tensors, which
tensors of torch_xla do not have."""


class XlaDispatching:
    """See `lowering.frontends.protocols.Dispatching`."""

    dispatch_key = DISPATCH_KEY
    autograd_key = AUTOGRAD_KEY
    functionalization_key = FUNCTIONALIZATION_KEY

    def __init__(self) -> None:
        # The handle of a kernel stays valid after the kernel was overridden, but it can only be
        # obtained before that.
        self._stock: dict[tuple[str, str], StockKernel] = {}
        self._decomposed: dict[str, bool] = {}
        self._overloads: dict[str, Any] = {}
        self._stacks: dict[tuple[str, str], Stack] = {}

    def stock_kernel(self, operator: Operator, dispatch_key: str) -> StockKernel:
        self._forget_if_redefined(operator)
        key = (operator.qualified, dispatch_key)
        if key not in self._stock:
            call_boxed = torch.library.get_kernel(operator.qualified, dispatch_key).call_boxed
            in_python = torch_internals.python_kernel(overload(operator.qualified), dispatch_key)
            if in_python is not None:
                call_boxed = _in_python_dispatcher(in_python, call_boxed)
            if torch_internals.takes_numbers(operator.name):
                call_boxed = _taking_numbers(call_boxed, operator)
            self._stock[key] = StockKernel(call_boxed, keys_from(self, dispatch_key))
        return self._stock[key]

    def _forget_if_redefined(self, operator: Operator) -> None:
        """Forget an operator that was redefined, for example because the module of a vendor's
        operator was loaded again. The handles of its old kernels are no longer valid."""
        name, defined = operator.qualified, overload(operator.qualified)
        if self._overloads.setdefault(name, defined) is defined:
            return
        self._overloads[name] = defined
        self._decomposed.pop(name, None)
        for key in [key for key in self._stock if key[0] == name]:
            del self._stock[key]
            if key in self._stacks:
                self._stacks.pop(key).abandon()

    def decomposes(self, operator: Operator) -> bool:
        """See `lowering.frontends.protocols.Frontend`."""
        if operator.qualified in self._decomposed:
            return self._decomposed[operator.qualified]
        # torch_xla's own AutogradXLA kernels (layer and group norm, pooling, …) are generated into
        # one file. The dispatcher's table contains the file's name.
        origin = torch_internals.kernel_origin(operator.qualified, self.autograd_key)
        return "RegisterAutogradXLA" in origin

    def override(self, operator: Operator, dispatch_key: str, kernel: Kernel) -> OverridingKernel:
        torch_internals.keep_dynamo_out(kernel)
        # The handle of the stock kernel is kept while it can be obtained.
        stock = self.stock_kernel(operator, dispatch_key)
        name, with_keyset = operator.qualified, dispatch_key != self.dispatch_key
        self._decomposed[name] = self.decomposes(operator)
        called = stock.call_boxed if with_keyset else stock
        stack = Stack(name, dispatch_key, with_keyset, called, overload(operator.qualified))
        return self._stacks.setdefault((name, dispatch_key), stack).override(kernel)

    def tidy(self) -> None:
        for stack in self._stacks.values():
            stack.tidy()

    def implement(self, name: str, kernel: Kernel) -> OverridingKernel:
        qualified, key = f"{OPERATOR_NAMESPACE}::{name}", self.dispatch_key
        stack = Stack(qualified, key, with_keyset=False, stock=kernel)
        return self._stacks.setdefault((qualified, key), stack).override(kernel)


def _taking_numbers(call_boxed: Kernel, operator: Operator) -> Kernel:
    """A kernel that accepts Python numbers instead of tensors, as in `x + 1`.

    PyTorch passes such numbers to kernels in Python as they are. A handle of a kernel takes tensors
    only.
    """
    positions = [position for position, _ in operator.tensor_positions]

    def called(keys: DispatchKeySet, *arguments: Any, **keywords: Any) -> Any:
        values = list(arguments)
        tensors = [values[n] for n in positions if isinstance(values[n], torch.Tensor)]
        for n in positions:
            if isinstance(values[n], bool | int | float | complex) and tensors:
                values[n] = _as_tensor(values[n], tensors[0])
        return call_boxed(keys, *values, **keywords)

    return called


def _as_tensor(number: complex, operand: torch.Tensor) -> torch.Tensor:
    """Convert a number to a tensor as torch_xla does: in the result's type, so that it takes part
    in type promotion like the number."""
    return torch.tensor(number, dtype=torch.result_type(operand, number))


def _in_python_dispatcher(in_python: Kernel, call_boxed: Kernel) -> Kernel:
    """Choose the kernel as the dispatcher would: torch.compile traces a Python kernel if there is
    one.

    The Python kernel of dropout, for example, draws other random numbers than the C++ kernel.
    """

    def chosen(keys: DispatchKeySet, *arguments: Any, **keywords: Any) -> Any:
        if torch_internals.in_python_dispatcher():
            return in_python(*arguments, **keywords)
        return call_boxed(keys, *arguments, **keywords)

    return chosen
