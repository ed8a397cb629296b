"""What a frontend offers, one protocol for each part of the project that asks.

A frontend is a `Frontend` of such parts. A second one implements the protocols for what it has:
one that does not build PyTorch graphs lazily has no `RandomNumbers`, and one that runs nothing has
no `Dispatching`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from composites.registry.operators import Operator
from lowering.emission.types import DecompositionHlo, TensorType
from lowering.stablehlo import Module

Kernel = Callable[..., Any]
"""A function with an operator's signature."""


# ---- tensors: asked by everything ----


class Tensors(Protocol):
    """The tensors of a frontend."""

    @property
    def device_type(self) -> str:
        """The type of their devices in PyTorch, such as `xla`."""

    def owns(self, tensor: Any) -> bool:
        """Whether a tensor is on such a device. A plain function, which Dynamo can read."""

    def type_of(self, tensor: Any) -> TensorType:
        """Element type and shape of a tensor."""

    def dtype(self, element_type: str) -> Any:
        """The dtype of an element type."""

    def placeholder(self, like: Any) -> Any:
        """A tensor with the shape and dtype of `like` that has no data."""


# ---- dispatching: asked when hooks are installed ----


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


class Dispatching(Protocol):
    """Kernels in PyTorch's dispatcher."""

    @property
    def dispatch_key(self) -> str:
        """Dispatch key of the backend, such as `XLA`."""

    @property
    def autograd_key(self) -> str:
        """The key right above PyTorch's decompositions, such as `AutogradXLA`."""

    @property
    def functionalization_key(self) -> str:
        """The key right above the backend's, which inference mode enters first."""

    def stock_kernel(self, operator: Operator, dispatch_key: str) -> StockKernel:
        """The stock kernel; can be called after another one is put in its place."""

    def decomposes(self, operator: Operator) -> bool:
        """Whether the frontend itself decomposes an operator above its backend kernels."""

    def override(self, operator: Operator, dispatch_key: str, kernel: Kernel) -> Override:
        """Put a kernel in place of the stock one, silently."""


class CompiledGraphs(Protocol):
    """Operators of this project in the graphs of torch.compile."""

    def define_operator(self, name: str, operator: Operator, meaning: Kernel) -> Kernel:
        """Define an operator with the schema of `operator` that nothing decomposes.

        On every backend but this one it is `meaning`.
        """

    def implement(self, name: str, kernel: Kernel) -> Override:
        """Give such an operator its kernel for this backend."""


# ---- graphs: asked by hooks ----


class Graph(Protocol):
    """The graph that the frontend builds."""

    @property
    def target(self) -> Hashable:
        """What the graph is for; what was lowered for one target is not used for another."""

    @property
    def guards_products(self) -> bool:
        """Whether the compiler of this graph needs a barrier behind a product of narrow operands
        with a wide result."""

    def computation(self, name: str, module: bytes) -> Any:
        """A handle of an HLO module, to be inserted into graphs any number of times."""

    @property
    def insert(self) -> Callable[[str, Sequence[Any], Any], Sequence[Any]]:
        """`insert(symbol, operands, computation)` calls a computation as one node of the graph."""


class Tracing(Protocol):
    """Functions of tensors as HLO."""

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


# ---- random numbers: asked by composites that draw ----


@dataclass(frozen=True, slots=True)
class Seed:
    """A state of the frontend's generator of random numbers."""

    state: Any
    """A 0-d int64 tensor."""
    value: int
    """The same on the host."""


class RandomNumbers(Protocol):
    """The frontend's generator of random numbers."""

    def seed(self) -> Seed:
        """The state of the generator before the next draw."""

    def advance(self, draws: int) -> None:
        """Move the generator on, as so many random operators would."""

    def random_state(self, seed: Seed | None) -> AbstractContextManager[None]:
        """A context in which random operators draw from a state; None changes nothing."""


# ---- recording: asked by exports ----


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


class Recording(Protocol):
    """Whole programs, recorded without running them."""

    @property
    def value_read_errors(self) -> type[Exception]:
        """What is raised where something traced asks for a value."""

    @property
    def foreign_data_errors(self) -> type[Exception]:
        """What is raised where a recorded graph reads data that is none of its inputs."""

    def recording(self) -> AbstractContextManager[None]:
        """A context in which Python runs on placeholders and nothing is executed."""

    def unchanged(self, tensors: Sequence[Any], placeholders: Sequence[Any]) -> list[bool]:
        """For each tensor whether it still is one of the placeholders, not something computed."""

    def lower_graph(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> LoweredGraph:
        """StableHLO of what was recorded.

        Args:
            outputs: the results of the graph, in order.
            inputs: placeholders that it may read.
        """


@dataclass(frozen=True, slots=True)
class Frontend:
    """A frontend by its parts."""

    tensors: Tensors
    dispatching: Dispatching
    compiled_graphs: CompiledGraphs
    graph: Graph
    tracing: Tracing
    random_numbers: RandomNumbers
    recording: Recording
