"""Kernels in PyTorch's dispatcher: the stock kernels, and this project's overrides."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from composites import torch_internals
from composites.registry.operators import Operator, find_overload
from composites.torch_internals import DispatchKeySet
from lowering.frontends.protocols import Kernel
from lowering.frontends.torch_xla import AUTOGRAD_KEY, DISPATCH_KEY, FUNCTIONALIZATION_KEY

OPERATOR_NAMESPACE = "composites"
"""Namespace of this project's own operators."""


@dataclass(frozen=True, slots=True, eq=False)
class XlaStockKernel:
    """A kernel of torch_xla or PyTorch that can be called after it was overridden."""

    call_boxed: Callable[..., Any]
    keys: DispatchKeySet
    """The dispatch keys of a plain XLA tensor, from this kernel's key downwards."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.call_boxed(self.keys, *arguments, **keywords)


@dataclass(frozen=True, slots=True)
class _LibraryOverride:
    library: torch.library.Library
    overload: Any = None
    """The `torch.ops` overload of the operator; None for one of this project's own operators."""

    def remove(self) -> None:
        torch_internals.remove_library(self.library)
        if self.overload is not None:
            torch_internals.forget_dispatch(self.overload)


class XlaDispatching:
    """See `Dispatching` and `CompiledGraphs` in `lowering.frontends.protocols`."""

    dispatch_key = DISPATCH_KEY
    autograd_key = AUTOGRAD_KEY
    functionalization_key = FUNCTIONALIZATION_KEY

    def __init__(self) -> None:
        # The handle of a kernel stays valid after the kernel was overridden, but it can only be
        # obtained before that.
        self._stock: dict[tuple[str, str], XlaStockKernel] = {}
        # Own operators stay defined, because a compiled graph may hold one after its entry was
        # turned off.
        self._defined: dict[str, torch.library.Library] = {}

    def stock_kernel(self, operator: Operator, dispatch_key: str) -> XlaStockKernel:
        place = (operator.qualified, dispatch_key)
        if place not in self._stock:
            call_boxed = torch.library.get_kernel(operator.qualified, dispatch_key).call_boxed
            in_python = torch_internals.python_kernel(find_overload(operator), dispatch_key)
            if in_python is not None:
                call_boxed = _in_python_dispatcher(in_python, call_boxed)
            self._stock[place] = XlaStockKernel(call_boxed, self._keys_from(dispatch_key))
        return self._stock[place]

    def decomposes(self, operator: Operator) -> bool:
        # torch_xla's own AutogradXLA kernels (layer and group norm, pooling, …) are generated into
        # one file. The dispatcher's table contains the file's name.
        origin = torch_internals.kernel_origin(operator.qualified, self.autograd_key)
        return "RegisterAutogradXLA" in origin

    def override(self, operator: Operator, dispatch_key: str, kernel: Kernel) -> _LibraryOverride:
        self.stock_kernel(operator, dispatch_key)  # keep its handle while it can be obtained
        torch_internals.keep_dynamo_out(kernel)
        namespace, _, name = operator.qualified.partition("::")
        library = torch.library.Library(namespace, "IMPL")
        override = _LibraryOverride(library, find_overload(operator))
        with_keyset = dispatch_key != self.dispatch_key
        _register(override, name, kernel, dispatch_key, with_keyset=with_keyset)
        return override

    def define_operator(self, name: str, operator: Operator, meaning: Kernel) -> Any:
        """Define an operator with the schema of `operator` that PyTorch does not decompose.

        It runs `meaning` on every other backend and on FakeTensors. It also does so on XLA while
        the entry is off, since a compiled graph may still call it.
        """
        if name not in self._defined:
            schema = operator.schema.removeprefix(operator.qualified)
            library = torch.library.Library(OPERATOR_NAMESPACE, "FRAGMENT")
            try:
                library.define(f"{name}{schema}")
                library.impl(name, meaning, "CompositeExplicitAutograd")
                # Results on FakeTensors come from PyTorch's decomposition if there is one. Without
                # a registered kernel, PyTorch would call `meaning` on meta tensors, and
                # `aten::cross_entropy_loss` never returns there.
                shapes = torch_internals.decomposition_of(meaning) or meaning
                torch.library.register_fake(f"{OPERATOR_NAMESPACE}::{name}", shapes, lib=library)
                self._defined[name] = library
            except BaseException:  # so that it can be defined again
                torch_internals.remove_library(library)
                raise
        return getattr(getattr(torch.ops, OPERATOR_NAMESPACE), name).default

    def implement(self, name: str, kernel: Kernel) -> _LibraryOverride:
        override = _LibraryOverride(torch.library.Library(OPERATOR_NAMESPACE, "IMPL"))
        _register(override, name, kernel, self.dispatch_key)
        return override

    def _keys_from(self, dispatch_key: str) -> DispatchKeySet:
        # ADInplaceOrView is left out. It only has kernels for operators that write to an argument
        # or return a view, which no entry can catch. For the others it has a fallthrough, which
        # must not be called.
        order = (self.autograd_key, self.functionalization_key, self.dispatch_key)
        return torch_internals.key_set(self.dispatch_key, *order[order.index(dispatch_key) :])


def _register(
    override: _LibraryOverride,
    name: str,
    kernel: Kernel,
    dispatch_key: str,
    *,
    with_keyset: bool = False,
) -> None:
    """Register a kernel over any that is there. If this fails, nothing stays registered."""
    try:
        with warnings.catch_warnings():  # "Overriding a previously registered kernel"
            warnings.simplefilter("ignore")
            override.library.impl(
                name, kernel, dispatch_key, with_keyset=with_keyset, allow_override=True
            )
        if override.overload is not None:
            torch_internals.forget_dispatch(override.overload)
    except BaseException:
        override.remove()
        raise


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
