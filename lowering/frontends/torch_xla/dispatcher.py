"""Kernels in PyTorch's dispatcher: the stock ones, and ours in their place."""

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

OPERATOR_NAMESPACE = "composites"
"""Namespace of this project's own operators."""


@dataclass(frozen=True, slots=True, eq=False)
class XlaStockKernel:
    """A kernel of torch_xla or PyTorch, callable after another one was registered over it."""

    call_boxed: Callable[..., Any]
    keys: DispatchKeySet
    """The keys that a plain XLA tensor has from this kernel's key on down."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.call_boxed(self.keys, *arguments, **keywords)


@dataclass(frozen=True, slots=True)
class _LibraryOverride:
    library: torch.library.Library
    overload: Any = None
    """The `torch.ops` callable of the operator; None for one of this project's own."""

    def remove(self) -> None:
        torch_internals.remove_library(self.library)
        if self.overload is not None:
            torch_internals.forget_dispatch(self.overload)


class XlaDispatching:
    """See `Dispatching` and `CompiledGraphs` in `lowering.frontends.protocols`."""

    dispatch_key = "XLA"
    autograd_key = "AutogradXLA"
    functionalization_key = "Functionalize"

    def __init__(self) -> None:
        # A kernel's handle stays valid while another one is registered over it, but can only be
        # asked for while it is the newest one.
        self._stock: dict[tuple[str, str], XlaStockKernel] = {}
        # Own operators stay defined: a compiled graph may hold one after it was turned off.
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
        # one file, whose name the dispatcher knows.
        origin = torch_internals.kernel_origin(operator.qualified, self.autograd_key)
        return "RegisterAutogradXLA" in origin

    def override(self, operator: Operator, dispatch_key: str, kernel: Kernel) -> _LibraryOverride:
        self.stock_kernel(operator, dispatch_key)  # remember it while it can be asked for
        torch_internals.keep_dynamo_out(kernel)
        namespace, _, name = operator.qualified.partition("::")
        library = torch.library.Library(namespace, "IMPL")
        with warnings.catch_warnings():  # "Overriding a previously registered kernel"
            warnings.simplefilter("ignore")
            library.impl(
                name,
                kernel,
                dispatch_key,
                with_keyset=dispatch_key != self.dispatch_key,
                allow_override=True,
            )
        overload = find_overload(operator)
        torch_internals.forget_dispatch(overload)
        return _LibraryOverride(library, overload)

    def define_operator(self, name: str, operator: Operator, meaning: Kernel) -> Any:
        """An operator of ours with the schema of `operator` that no decomposition takes.

        Its kernel on every other backend, on FakeTensors, and on XLA while the entry is off (a
        compiled graph may still call it) is `meaning`.
        """
        if name not in self._defined:
            schema = operator.schema.removeprefix(operator.qualified)
            library = torch.library.Library(OPERATOR_NAMESPACE, "FRAGMENT")
            library.define(f"{name}{schema}")
            library.impl(name, meaning, "CompositeExplicitAutograd")
            # Results on FakeTensors are found by PyTorch's decomposition where there is one. Called
            # on meta tensors, as PyTorch does without it, `aten::cross_entropy_loss` never returns.
            shapes = torch_internals.decomposition_of(meaning) or meaning
            torch.library.register_fake(f"{OPERATOR_NAMESPACE}::{name}", shapes, lib=library)
            self._defined[name] = library
        return getattr(getattr(torch.ops, OPERATOR_NAMESPACE), name).default

    def implement(self, name: str, kernel: Kernel) -> _LibraryOverride:
        library = torch.library.Library(OPERATOR_NAMESPACE, "IMPL")
        library.impl(name, kernel, self.dispatch_key)
        return _LibraryOverride(library)

    def _keys_from(self, dispatch_key: str) -> DispatchKeySet:
        # ADInplaceOrView has a kernel for operators that write or return views, which no entry is,
        # and a fallthrough for the others, which must not be called.
        order = (self.autograd_key, self.functionalization_key, self.dispatch_key)
        return torch_internals.key_set(self.dispatch_key, *order[order.index(dispatch_key) :])


def _in_python_dispatcher(in_python: Kernel, call_boxed: Kernel) -> Kernel:
    """What the dispatcher would call: torch.compile traces kernels in Python where there are any.

    Those of dropout, for one, draw other random numbers.
    """

    def chosen(keys: DispatchKeySet, *arguments: Any, **keywords: Any) -> Any:
        if torch_internals.in_python_dispatcher():
            return in_python(*arguments, **keywords)
        return call_boxed(keys, *arguments, **keywords)

    return chosen
