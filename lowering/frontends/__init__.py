"""Frontends: what a tracing framework must offer so that composites can be put into its graphs.

`torch_xla` is the one there is. Everything before it (registry, generated hooks) and after it
(emission, StableHLO) does not know which frontend runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from composites.registry.operators import Operator
from lowering.emission.composite import DecompositionHlo, TensorType

Kernel = Callable[..., Any]
"""A function with an operator's signature."""


class StockKernel(Protocol):
    """The kernel that runs while nothing is overridden."""

    @property
    def call_boxed(self) -> Kernel:
        """Takes the dispatch keys of the call before the arguments."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any: ...


class Override(Protocol):
    """A kernel put in place of the stock one."""

    def remove(self) -> None:
        """Put the stock kernel back."""


class Frontend(Protocol):
    """A lazily tracing backend of PyTorch."""

    dispatch_key: str
    """Dispatch key of the backend, e.g. `XLA`."""

    autograd_key: str
    """The key right above PyTorch's decompositions, e.g. `AutogradXLA`."""

    def stock_kernel(self, operator: Operator, dispatch_key: str) -> StockKernel:
        """The stock kernel; can be called after another one is put in its place."""

    def override(self, operator: Operator, dispatch_key: str, kernel: Kernel) -> Override:
        """Put a kernel in place of the stock one, silently."""

    def define_operator(self, name: str, operator: Operator) -> Kernel:
        """An operator of ours with the schema of `operator`, which nothing decomposes."""

    def implement(self, name: str, kernel: Kernel) -> Override:
        """Give an operator of ours its kernel for this backend."""

    def trace(
        self, function: Callable[..., Any], operands: Sequence[Any], *, whole_dispatch: bool
    ) -> DecompositionHlo:
        """Trace a function of tensors like `operands` without reading their values.

        Args:
            function: takes one placeholder for each operand that is not None, returns a tensor or
                a tuple of tensors.
            operands: the tensors of a call; None for an absent one.
            whole_dispatch: start at the top of the dispatcher, as a user's call does; otherwise
                below functionalization, where the backend's own kernels run.
        """

    def tensor_type(self, tensor: Any) -> TensorType:
        """Element type and shape of a tensor."""

    def computation(self, name: str, module: bytes) -> Any:
        """A handle of an HLO module, to be inserted into graphs any number of times."""

    insert: Callable[[str, Sequence[Any], Any], Sequence[Any]]
    """`insert(symbol, operands, computation)` calls a computation as one node of the graph."""
