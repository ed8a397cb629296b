"""The parts of a frontend, with one protocol for each part of the project that uses it.

A `Frontend` consists of these parts. Its last fields, which have a default, are used only by
torch_xla's frontend.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from composites.in_place import InPlace
from composites.registry.operators import Operator
from composites.torch_internals import DispatchKeySet
from lowering.emission.types import TensorType
from lowering.stablehlo import Module

Kernel = Callable[..., Any]
"""A function with an operator's signature."""


Bounds = Mapping[str, tuple[int, int | None]]
"""The smallest and the largest size of each dimension, by name; None for no largest size."""


class GraphRunError(RuntimeError):
    """Traced code tries to run the graph that is being built."""


class WrittenOperandError(RuntimeError):
    """A traced function writes to one of its operands."""


# ---- tensors: used everywhere ----


class Tensors(Protocol):
    """The tensors of a frontend."""

    device_type: str
    """The type of the tensors' devices in PyTorch, such as `xla`."""

    def owns(self, tensor: Any) -> bool:
        """Return whether a tensor is on a device of `device_type`. Dynamo can trace this method."""

    def tensor_type(self, tensor: Any) -> TensorType:
        """Element type and shape of a tensor.

        Raises:
            UnsupportedCallError: the frontend has no tensors of the dtype.
        """

    def described(self, type_: TensorType) -> tuple[Any, Any]:
        """The shape and dtype of a tensor of a type."""

    def placeholder(self, like: Any) -> Any:
        """A tensor without data that has the shape and dtype of `like`.

        Raises:
            UnsupportedCallError: the frontend has no tensors of the dtype.
        """

    def read_instead(self, computed: Any, saved: Any) -> None:
        """Make a traced function read `saved`, which has the values of `computed`, instead of
        `computed`, if the frontend can change a trace."""


# ---- dispatching: used when hooks are installed ----


@dataclass(frozen=True, slots=True, eq=False)
class StockKernel:
    """The kernel that runs unless it is overridden. It can be called after that, too."""

    call_boxed: Kernel
    """Takes the dispatch keys of the call as its first argument."""
    keys: DispatchKeySet
    """The dispatch keys of a plain tensor of the frontend, from this kernel's key downwards."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.call_boxed(self.keys, *arguments, **keywords)


class Override(Protocol):
    """A kernel that replaces the stock kernel."""

    def remove(self) -> None:
        """Restore the stock kernel."""


class Dispatching(Protocol):
    """Kernels in PyTorch's dispatcher."""

    dispatch_key: str
    """Dispatch key of the backend, such as `XLA`."""
    autograd_key: str
    """The key directly above PyTorch's decompositions, such as `AutogradXLA`."""
    functionalization_key: str
    """The key directly above the backend's, which a call reaches first in inference mode."""

    def stock_kernel(self, operator: Operator, dispatch_key: str) -> StockKernel:
        """The stock kernel."""

    def override(self, operator: Operator, dispatch_key: str, kernel: Kernel) -> Override:
        """Replace the stock kernel, without a warning."""

    def implement(self, name: str, kernel: Kernel) -> Override:
        """Register the kernel of one of this project's own operators for this backend."""

    def tidy(self) -> None:
        """Remove registrations that overrides left behind because other threads were running."""


# ---- graphs: used by hooks ----


class TracedFunction(Protocol):
    """A traced function, in a form that belongs to the frontend."""

    @property
    def draws(self) -> int:
        """The number of times that the function advances the random number generator's state."""

    @property
    def takes_state(self) -> bool:
        """True if a result depends on that state, which is then one more operand, the last."""

    def reads(self) -> Sequence[bool]:
        """For each present operand, True if a result depends on its value."""


@dataclass(frozen=True, slots=True)
class EmittedComposite:
    """A composite that is ready to be inserted into a graph."""

    handle: Any
    results: tuple[TensorType, ...]


class Graph(Protocol):
    """The graph that the frontend builds."""

    device: str
    """The kind of device on which graphs run, such as `CPU`. Lowerings may depend on it."""

    @property
    def target(self) -> Hashable:
        """The purpose of the graph. Computations for one target are not used for another."""

    @property
    def is_decomposition(self) -> bool:
        """True while this thread traces a decomposition, whose calls are not the program's."""

    @property
    def is_shared(self) -> bool:
        """True if several devices share the graph, at the time when a composite is made."""

    def composite(
        self,
        name: str,
        version: int,
        attributes: Mapping[str, str | None],
        operands: Sequence[TensorType],
        decomposition: Any,
    ) -> EmittedComposite:
        """Make a composite, which can be inserted into graphs any number of times.

        Args:
            name: `namespace.name`.
            attributes: MLIR text by name, see `composites.attribute_types`.
            operands: types of the present operands, in the composite's order. A decomposition that
                draws random numbers takes the state of the generator after these.
            decomposition: a `TracedFunction` that `Tracing` of the same frontend has made.
        """

    @property
    def runs(self) -> bool:
        """True if the graph runs, False if it is recorded."""

    @property
    def insert(self) -> Callable[[str, Sequence[Any], Any], Sequence[Any]]:
        """`insert(symbol, operands, handle)` adds the call of a composite as one node."""

    @property
    def insert_several(self) -> Callable[[str, Sequence[Any], Any], Sequence[Any]]:
        """`insert` for a composite with several results, which are executed together, even if the
        frontend executes each tensor as it is made."""


class Tracing(Protocol):
    """Tracing functions, to get decompositions."""

    def trace(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        *,
        whole_dispatch: bool,
        autocast: Any = None,
        as_stock: bool = False,
    ) -> TracedFunction:
        """Trace a function of tensors like `operands` without reading their values.

        Args:
            function: takes one placeholder for each operand that is not None, and returns a tensor
                or a tuple of tensors.
            operands: the tensors of a call; None for an absent operand.
            whole_dispatch: start at the top of the dispatcher, as a user's call does. Otherwise
                start below functionalization, where the backend's own kernels run.
            autocast: dtype of the autocast that the function runs under; None for no autocast.
            as_stock: keep the bits of the stock graph, in which Python numbers are data, so that
                XLA must not compute with them.
        """

    def trace_arrays(
        self, function: Callable[..., Any], operands: Sequence[TensorType | None]
    ) -> TracedFunction:
        """Trace a function of JAX arrays of the types `operands`. An operand that is None is passed
        as None. 64-bit types are kept, as in PyTorch, regardless of JAX's setting."""

    def autocast_dtype(self) -> Any:
        """The dtype of this backend's active autocast; None if autocast is off."""

    def autocast(self, dtype: Any) -> AbstractContextManager[None]:
        """A context in which autocast uses a dtype; None turns it off."""


# ---- random numbers: used by composites that draw them ----


@dataclass(frozen=True, slots=True)
class Seed:
    """A state of the frontend's random number generator."""

    state: Any
    """A 0-d int64 tensor."""
    value: int
    """The value of the seed on the host."""


class RandomNumbers(Protocol):
    """The frontend's random number generator."""

    def seed(self) -> Seed:
        """The state of the generator before the next draw."""

    def advance(self, draws: int) -> None:
        """Advance the generator like a number of random operators."""

    def random_state(self, seed: Seed | None) -> AbstractContextManager[object]:
        """A context in which random operators draw from a state; None changes nothing."""


# ---- recording: used by exports ----


@dataclass(frozen=True, slots=True)
class GraphParameter:
    """A parameter of a recorded graph."""

    operand: int | None
    """The number of the input; None for the random seed."""
    type: TensorType


@dataclass(frozen=True, slots=True)
class LoweredGraph:
    """A recorded graph as StableHLO."""

    module: Module
    """The module, which is clean except for the names of decompositions."""
    parameters: tuple[GraphParameter, ...]
    results: tuple[TensorType, ...]


class Recording(Protocol):
    """Recording whole programs without running them.

    A call that cannot be part of a program raises an exception of `lowering.frontends.errors`.
    """

    def recording(self, *, shared: bool = False) -> AbstractContextManager[None]:
        """A context in which Python runs on placeholders and nothing is executed.

        In it, autograd computes gradients in the calling thread. Leave inference mode before, which
        also chooses threads.

        Args:
            shared: True if several devices will share the program.
        """

    def symbolic(self, dimensions: Bounds) -> AbstractContextManager[Mapping[str, Any]]:
        """A context in which a program whose sizes vary is recorded. It yields the symbol of each
        dimension, for shapes of placeholders. Programs that are lowered in it have `?` for these.

        Raises:
            ExportError: the frontend does not support symbols, or the recorded program is wrong at
                some sizes.
        """

    def unchanged(self, tensors: Sequence[Any], placeholders: Sequence[Any]) -> list[bool]:
        """For each tensor, True if it is still one of the placeholders and not a computed value."""

    def has_no_value(self, tensor: Any) -> bool:
        """Return whether a tensor is a placeholder or computed from a placeholder. Reading such a
        tensor after the recording would end the process."""

    def lower_graph(
        self, outputs: Sequence[Any], inputs: Sequence[Any], *, located: bool = False
    ) -> LoweredGraph:
        """The StableHLO of the recorded program.

        Args:
            outputs: the results of the graph, in order.
            inputs: the placeholders that the graph may read.
            located: give operations the locations that `located` keeps, and do not simplify them.
        """

    def located(self) -> AbstractContextManager[None]:
        """A context in which recorded graphs keep the operators and the lines of Python from which
        operations come."""


# ---- running: used by `composites verify` ----


class RunningGraph(Protocol):
    """Calls that run as one graph."""

    def put(self, tensor: Any) -> Any:
        """A new leaf tensor of the frontend with the values of a CPU tensor."""

    def call(self) -> AbstractContextManager[None]:
        """A context for one call and its gradients, in which the random generator starts anew."""

    def stablehlo(self, tensors: Sequence[Any]) -> Module:
        """The graph that computes `tensors`, before it has run."""

    def run(self, tensors: Sequence[Any]) -> None:
        """Run the graph that computes `tensors` and no other tensors."""

    def values(self, tensor: Any) -> Any:
        """The values of one of the tensors passed to `run`, on the CPU."""


# ---- labels: used by `composites suggest` ----


class Labels(Protocol):
    """Labels of calls in the HLO of a graph."""

    def kept(self) -> AbstractContextManager[None]:
        """A context in which recorded graphs keep labels."""

    def label(self, text: str) -> AbstractContextManager[None]:
        """A context in which this thread's calls have a label: letters and digits."""

    def refusing_reads(self) -> AbstractContextManager[None]:
        """A context for a call in a dispatch mode, in which reading values is an error, as in a
        recording."""

    def hlo(self, tensors: Sequence[Any]) -> bytes:
        """The graph that computes `tensors` as a serialized HLO module. Nothing is run."""

    def find_label(self, instruction: Any) -> str | None:
        """The innermost label of the call from which an HLO instruction comes; None without one."""


@dataclass(frozen=True, slots=True)
class Frontend:
    """The parts of a frontend."""

    tensors: Tensors
    dispatching: Dispatching
    graph: Graph
    tracing: Tracing
    random_numbers: RandomNumbers
    recording: Recording
    running: Callable[[], AbstractContextManager[RunningGraph]]
    """A context in which calls are made that run as one graph."""
    write: Callable[[InPlace], None]
    """Gives tensors new values in place."""
    own_operators: Callable[[], Sequence[Override]] = tuple
    """Registers kernels of this project's own operators, for as long as the result is kept."""
    labels: Labels | None = None
    """None: the frontend cannot tell from which call an instruction comes."""
    dynamic_sizes: Callable[[Callable[[], None]], None] | None = None
    """Calls a function before a size of a tensor becomes dynamic, which computations do not
    support. None: no size is dynamic."""
    decomposes: Callable[[Operator], bool] = lambda operator: False
    """Returns True for an operator that the frontend itself decomposes above its backend
    kernels."""
    crashing: frozenset[str] = frozenset()
    """Operators whose stock kernels end the process instead of raising an exception."""
    lost_types: frozenset[str] = frozenset()
    """Element types of results that get another dtype when a computation is inserted."""
    sharding_text: Callable[[Any], str] = lambda tensor: ""
    """Returns the sharding of a tensor among devices, as GSPMD's text; empty without a sharding."""
