"""Frontends: what a tracing framework must offer so that composites can be put into its graphs.

`torch_xla` is the one there is. Everything before it (registry, generated hooks) and after it
(emission, StableHLO) does not know which frontend runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from composites.registry.operators import Operator
from lowering.compiled_calls import CompiledCalls
from lowering.emission.composite import DecompositionHlo, TensorType
from lowering.stablehlo import Module

Kernel = Callable[..., Any]
"""A function with an operator's signature."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A state of the frontend's generator of random numbers."""

    state: Any
    """A 0-d int64 tensor."""
    value: int
    """The same on the host."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a graph is for."""

    device: str | None
    """What it runs on: `CPU`, `CUDA`, …; None in `recording`, where it refers to computations."""
    inside: bool
    """Whether it becomes part of a decomposition, as in `trace`."""

    @property
    def is_program_of_xla_cpu(self) -> bool:
        """Whether XLA:CPU compiles it as it is."""
        return self.device == "CPU" and not self.inside


@dataclass(frozen=True, slots=True)
class GraphParameter:
    """A parameter of a recorded graph."""

    operand: int | None
    """Which of the inputs it is; None for the seed of random numbers."""
    type: TensorType


@dataclass(frozen=True, slots=True)
class LoweredGraph:
    """A recorded graph as StableHLO."""

    module: Module
    clean: bool
    """Whether decompositions are shared, and nothing but their names is left to clean."""
    parameters: tuple[GraphParameter, ...]


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

    @property
    def target(self) -> Target:
        """What the graphs that are being built are for."""

    functionalization_key: str
    """The key right above the backend's, which inference mode enters first."""

    def stock_kernel(self, operator: Operator, dispatch_key: str) -> StockKernel:
        """The stock kernel; can be called after another one is put in its place."""

    def takes_apart(self, operator: Operator) -> bool:
        """Whether the frontend itself decomposes an operator above its backend kernels."""

    def override(self, operator: Operator, dispatch_key: str, kernel: Kernel) -> Override:
        """Put a kernel in place of the stock one, silently."""

    def define_operator(self, name: str, operator: Operator, meaning: Kernel) -> Kernel:
        """An operator of ours with the schema of `operator`, which nothing decomposes; elsewhere
        than on this backend it is `meaning`."""

    def on_backend(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, declining the calls (UnsupportedCallError) that have no tensor of this
        backend among their arguments."""

    def implement(self, name: str, kernel: Kernel) -> Override:
        """Give an operator of ours its kernel for this backend."""

    def trace(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        *,
        whole_dispatch: bool,
        autocast: Any = None,
        as_stock: bool = False,
    ) -> DecompositionHlo:
        """Trace a function of tensors like `operands` without reading their values.

        Args:
            function: takes one placeholder for each operand that is not None, returns a tensor or
                a tuple of tensors.
            operands: the tensors of a call; None for an absent one.
            whole_dispatch: start at the top of the dispatcher, as a user's call does; otherwise
                below functionalization, where the backend's own kernels run.
            autocast: dtype of the autocast that the function runs under; None for none.
            as_stock: keep the bits of the stock graph: XLA must not compute with Python numbers,
                which it does not know there.
        """

    def autocast_dtype(self) -> Any:
        """The dtype of the autocast that is on for this backend; None where it is off."""

    def autocast(self, dtype: Any) -> AbstractContextManager[None]:
        """A context in which autocast has a dtype; None for off."""

    def seed(self) -> Seed:
        """The state of the generator of random numbers before the next draw."""

    def advance(self, draws: int) -> None:
        """Move the generator on, as so many random operators would."""

    def random_state(self, seed: Seed | None) -> AbstractContextManager[None]:
        """A context in which random operators draw from a state; None changes nothing."""

    value_read_errors: type[Exception]
    """What is raised where something traced asks for a value."""

    foreign_data_errors: type[Exception]
    """What is raised where a recorded graph reads data that is none of its inputs."""

    def recording(self) -> AbstractContextManager[None]:
        """A context in which Python runs on placeholders and nothing is executed."""

    def placeholder(self, like: Any) -> Any:
        """A tensor of the shape and dtype of `like` that has no data."""

    def unchanged(self, tensors: Sequence[Any], placeholders: Sequence[Any]) -> list[bool]:
        """For each tensor whether it still is one of the placeholders, not something computed."""

    def lower_graph(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> LoweredGraph:
        """StableHLO of what was recorded.

        Args:
            outputs: the results of the graph, in order.
            inputs: placeholders that it may read.
        """

    def tensor_type(self, tensor: Any) -> TensorType:
        """Element type and shape of a tensor."""

    def dtype(self, element_type: str) -> Any:
        """The dtype of an element type."""

    compiled_calls: CompiledCalls
    """What the composites in graphs of torch.compile are."""

    def computation(self, name: str, module: bytes) -> Any:
        """A handle of an HLO module, to be inserted into graphs any number of times."""

    insert: Callable[[str, Sequence[Any], Any], Sequence[Any]]
    """`insert(symbol, operands, computation)` calls a computation as one node of the graph."""
