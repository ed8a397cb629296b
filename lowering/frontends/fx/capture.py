"""Traced tensors, and the graph of aten operators that records computations with them.

A call reaches `__torch_dispatch__` below autograd and functionalization, so recorded operators
do not write to operands. A node is an operator with a rule in JAX
(`lowering.frontends.aten_in_jax`). Other operators are decomposed immediately, by this project or
by PyTorch.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from operator import getitem
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from composites import torch_internals
from composites.contexts import with_last, with_value
from composites.errors import UnsupportedCallError
from composites.operators import quantize
from composites.operators.unlowered import DECOMPOSITIONS
from composites.torch_internals import DispatchState, pytree
from lowering.frontends.aten_in_jax import linear_algebra, norms
from lowering.frontends.aten_in_jax.table import NoRuleError, has_rule
from lowering.frontends.errors import (
    ForeignDataError,
    NoKernelError,
    ValueReadError,
    check_constant,
)
from lowering.frontends.fx import DEVICE_TYPE, FUNCTIONALIZATION_KEY, lists
from lowering.frontends.fx.sizes import as_expressions, describing, vary
from lowering.frontends.fx.sources import keep_source
from lowering.frontends.protocols import Kernel
from lowering.frontends.tensor_types import description, layout_refusal


class TracedTensor(torch.Tensor):
    """A tensor without values: a node of the graph, and a description on the device `meta`."""

    node: torch.fx.Node
    described: torch.Tensor

    @staticmethod
    def __new__(cls, described: torch.Tensor, node: torch.fx.Node) -> "TracedTensor":
        made: TracedTensor = torch_internals.make_wrapper(cls, described, _device())
        made.described, made.node = described, node
        return made

    def __init__(self, described: torch.Tensor, node: torch.fx.Node) -> None:
        super().__init__()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return description(self)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return called(func, args, kwargs or {})


def device() -> torch.device:
    """The device of traced tensors of programs."""
    return torch.device(DEVICE_TYPE, 0)


def _device() -> torch.device:
    """The device of new traced tensors."""
    return device() if current_apart() is None else torch.device("cpu")


# ---- the graph ----


@dataclass(frozen=True, slots=True)
class Apart:
    """The recording of a function outside of programs."""

    kernels: Mapping[Any, Sequence[Kernel]]
    """Functions that record calls of an operator. The last function of a list is current."""
    writes: bool
    """True if calls may write to tensors. Functionalization, which allows this, may decompose an
    operator of `kernels`."""
    thread: int = field(default_factory=threading.get_ident)
    """The thread that records."""


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A graph that is recorded: a program, or a function that an operator of control flow takes."""

    graph: torch.fx.Graph
    operator: str = ""
    """The operator that takes the function."""
    lifted: dict[torch.fx.Node, TracedTensor] = field(default_factory=dict)
    """The placeholders of nodes of the enclosing region, by node."""
    apart: Apart | None = None
    """The recording outside of programs; None for a part of a program."""


LOCK = threading.RLock()
"""The lock of a recording, which all threads share. A JAX program that calls an entry for the first
time waits while another thread exports. JAX lowers the export meanwhile, so both would wait forever
if a decomposition of the export called the jitted function in which the entry is called."""

_SHARED: list[Region] = []
"""The regions that all threads record, starting with the program: autograd runs backward passes in
its own threads. Calls are added to the last region."""


@contextmanager
def recording(graph: torch.fx.Graph | None = None) -> Iterator[torch.fx.Graph]:
    """A context in which calls with traced tensors are recorded, and operators that make tensors on
    the device of traced tensors make traced tensors.

    Args:
        graph: the graph to which calls are added; by default the current graph, or a new one.
    """
    outermost = not _SHARED
    if outermost:
        _SHARED.append(Region(torch.fx.Graph() if graph is None else graph))
    try:
        with (
            capturing(),
            torch_internals.made_on_cpu(),
            torch_internals.without_checks_of_values(),
        ):
            yield current_region().graph
    finally:
        if outermost:
            _SHARED.clear()


@contextmanager
def apart(kernels: Mapping[Any, Sequence[Kernel]], *, writes: bool) -> Iterator[None]:
    """A context in which calls with traced tensors are recorded to a new graph, separate from other
    recordings; see `Apart`. Traced tensors in it, also those that calls make, are on the CPU, with
    the strides of PyTorch's tensors. No entry catches a call.
    """
    with (
        LOCK,
        errors_at_end(),
        sdpa_kernel(SDPBackend.MATH),
        torch_internals.without_saved_tensors_hooks(),
        torch_internals.without_checks_of_values(),
    ):
        before, _SHARED[:] = _SHARED[:], [Region(torch.fx.Graph(), apart=Apart(kernels, writes))]
        try:
            with with_value(_WITH_LAYOUT, True):
                yield
        finally:
            _SHARED[:] = before


def current_apart() -> Apart | None:
    """This thread's recording outside of programs; None if it has none."""
    current = _SHARED[0].apart if _SHARED else None
    return current if current is None or current.thread == threading.get_ident() else None


@contextmanager
def region(operator: str) -> Iterator[Region]:
    """A context that records a function argument of an operator, in a separate graph."""
    current_region()
    with with_last(_SHARED, Region(torch.fx.Graph(), operator)) as recorded:
        yield recorded


@contextmanager
def _in_region(tensor: TracedTensor) -> Iterator[None]:
    """A context in which calls are recorded to the region that computes a tensor."""
    graphs = [region.graph for region in _SHARED]
    inner = graphs.index(tensor.node.graph) + 1 if tensor.node.graph in graphs else len(graphs)
    left = _SHARED[inner:]
    del _SHARED[inner:]
    try:
        yield
    finally:
        _SHARED.extend(left)


def current_region() -> Region:
    """The region that is recorded.

    Raises:
        ForeignDataError: no region is recorded.
    """
    if not _SHARED:
        raise ForeignDataError(
            "a tensor of an export is used after the export; it has no values. Keep no tensors that"
            " a module computes while it is exported"
        )
    return _SHARED[-1]


def capturing() -> AbstractContextManager[Any]:
    """A context that also records calls which make tensors on the device of traced tensors."""
    return torch_internals.calls_through(_seen, _inside)


def _inside(
    dispatch: Callable[[Any, Any], Any],
    func: Any,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Any:
    """Make a call with a tensor that holds other tensors. Inner tensors are functional tensors.
    Plain operands are not, because functionalization has unwrapped them, and wraps the results.

    Raises:
        UnsupportedCallError: a plain operand becomes part of a tensor that holds others.
    """
    leaves = pytree.tree_leaves((arguments, keywords))
    wrap = partial(pytree.tree_map_only, TracedTensor, torch_internals.functional)
    with with_value(_WITH_LAYOUT, func in _TRANSPOSING):
        results = dispatch(*wrap((tuple(arguments), dict(keywords))))
    if not any(isinstance(leaf, TracedTensor) for leaf in leaves):
        return results
    for result in pytree.tree_leaves(results):
        if hasattr(result, "__tensor_flatten__"):
            raise UnsupportedCallError(
                f"{func.name()} makes a {type(result).__name__} of a plain tensor; compute with the"
                " tensors that it holds"
            )
    return pytree.tree_map_only(torch.Tensor, torch_internals.functionalized, results)


_TRANSPOSING = (torch.ops.aten.t.default, torch.ops.aten.transpose.int)
_WITH_LAYOUT: ContextVar[bool] = ContextVar("_WITH_LAYOUT", default=False)
"""True while a tensor that holds other tensors is transposed. The inner tensors then have the
strides of transposed tensors, which a class such as torchao's `MXTensor` reads; other traced
tensors have those of contiguous tensors."""


def _seen(func: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    leaves = pytree.tree_leaves((arguments, keywords))
    if any(isinstance(leaf, TracedTensor) for leaf in leaves):
        return called(func, arguments, keywords)
    asked = keywords.get("device")
    is_apart = current_apart() is not None
    if is_apart and asked is None and torch_internals.takes_device(func):
        asked = _device()
        keywords = {**keywords, "device": asked}
    varies = vary() and _is_on_cpu_of_varying_size(leaves, asked)
    if varies or (asked is not None and torch.device(asked).type == _device().type):
        made = called(func, arguments, keywords)
        # If all calls are functionalized, the results are wrapped already.
        wrapped = (lambda tensor: tensor) if is_apart else torch_internals.functional
        return pytree.tree_map_only(TracedTensor, wrapped, made)
    return func(*arguments, **keywords)


def _is_on_cpu_of_varying_size(leaves: Sequence[Any], asked: Any) -> bool:
    """Return whether a call on the CPU takes a size that varies. A tensor on the CPU has values,
    but a tensor whose size varies cannot have values, so it becomes a traced tensor."""
    types = {leaf.device.type for leaf in leaves if isinstance(leaf, torch.Tensor)}
    types |= set() if asked is None else {torch.device(asked).type}
    return types <= {"cpu"} and any(isinstance(leaf, torch.SymInt) for leaf in leaves)


def placeholder(described: torch.Tensor, graph: torch.fx.Graph | None = None) -> TracedTensor:
    """An input of a graph, by default the current one, described by a tensor on the device
    `meta`."""
    graph = current_region().graph if graph is None else graph
    node = graph.placeholder(f"input_{len(graph.nodes)}")
    return TracedTensor(described, _described(node, described))


def node(
    target: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    described: Any,
    operator: str = "",
) -> Any:
    """Add a call of a function to the graph, and return its results.

    Args:
        arguments: values in any nesting of lists and tuples. Tensors with values become constants.
        described: the results on the device `meta`: a tensor, or a list or tuple of tensors.
        operator: the operator's name, if the function is not the operator itself.
    """
    args, named = pytree.tree_map_only(torch.Tensor, _as_node, (tuple(arguments), dict(keywords)))
    args, named = as_expressions((args, named))
    made = _described(current_region().graph.call_function(target, args, named), described)
    keep_source(made, operator)
    if isinstance(described, torch.Tensor):
        return TracedTensor(described, made)
    results = [
        None
        if item is None
        else TracedTensor(item, _described(made.graph.call_function(getitem, (made, n)), item))
        for n, item in enumerate(described)
    ]
    return results if isinstance(described, list) else tuple(results)


def _described(made: torch.fx.Node, described: Any) -> torch.fx.Node:
    made.meta["val"] = described
    return made


def _as_node(tensor: torch.Tensor) -> torch.fx.Node:
    if not isinstance(tensor, TracedTensor):
        return constant(tensor).node
    return lifted(tensor).node


def lifted(tensor: TracedTensor) -> TracedTensor:
    """A tensor for use in the current region: a placeholder of the region, if an enclosing region
    computes the tensor.

    Raises:
        ForeignDataError: no region computes the tensor.
    """
    current_region()
    return _lifted(tensor, len(_SHARED) - 1)


def _lifted(tensor: TracedTensor, depth: int) -> TracedTensor:
    if depth < 0:
        raise ForeignDataError(
            f"a tensor of another export is used ({description(tensor)}); keep no tensors that a"
            " module computes while it is exported"
        )
    region = _SHARED[depth]
    if tensor.node.graph is region.graph:
        return tensor
    outer = _lifted(tensor, depth - 1)
    if outer.node not in region.lifted:
        inner = placeholder(outer.described, region.graph)
        inner.node.meta[ENCLOSING] = outer.node
        region.lifted[outer.node] = inner
    return region.lifted[outer.node]


def computed_in(tensor: torch.Tensor) -> torch.fx.Graph | None:
    """The graph that computes a tensor of the user's program; None for a tensor with values."""
    inner = torch_internals.without_writes(tensor)
    return inner.node.graph if isinstance(inner, TracedTensor) else None


# ---- calls ----

KERNELS: dict[Any, list[Kernel]] = {}
"""This project's kernels at the backend's key, by overload. The last of a list is current."""

FUNCTIONS: dict[Any, Kernel] = {}
"""Functions of traced tensors that replace operators. Modules of this package add theirs."""

OWN: dict[Any, Kernel] = {}
"""Decompositions that read the graph. Modules of this package add theirs."""

_READERS = frozenset(["aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero"])
_SAME = frozenset(
    f"aten::{name}"
    for name in (
        "alias", "alias_copy", "clone", "contiguous", "detach", "detach_copy", "lift",
        "lift_fresh", "lift_fresh_copy",
    )
)  # fmt: skip
"""Operators that return the values of their operand."""


def called(func: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """The results of a call below autograd and functionalization."""
    apart = current_apart()
    kernels = (KERNELS if apart is None else apart.kernels).get(func)
    for leaf in pytree.tree_leaves((arguments, keywords)):
        refusal = layout_refusal(leaf) if isinstance(leaf, torch.Tensor) else None
        if refusal is not None:
            raise ForeignDataError(f"{func.name()} takes a tensor that {refusal}")
    try:
        if kernels:
            return kernels[-1](*arguments, **keywords)
        return stock(func, arguments, keywords)
    except Exception as error:
        deferred = _DEFERRED[-1] if _DEFERRED else None
        if deferred is None or torch_internals.running_node() is None:
            raise
        # The backward of an operator written in C++ would end the process with this error (torch
        # 2.15.0: a destructor of the engine calls into Python while the error is set).
        deferred.append(error)
        described = describe(func, arguments, keywords)
        return pytree.tree_map_only(torch.Tensor, placeholder, described)


_DEFERRED: list[list[Exception] | None] = []
"""Lists of errors of backward passes, to be raised later. The last list is current; while it is
None, errors are raised immediately."""


@contextmanager
def errors_at_end() -> Iterator[None]:
    """A context in which a backward continues after an error, which is raised at the end."""
    errors: list[Exception] = []
    try:
        with with_last(_DEFERRED, errors):
            yield
    except Exception as error:
        if errors:
            raise errors[0] from error
        raise
    if errors:
        raise errors[0]


def errors_at_once() -> AbstractContextManager[object]:
    """A context in which errors are raised where they occur, also in a backward."""
    return with_last(_DEFERRED, None)


def stock(func: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """The results of a call without this project's kernels.

    Raises:
        ValueReadError: the call reads a value.
        NoKernelError: the operator has neither a rule nor a decomposition.
    """
    name = func.name()
    if name in _READERS or _leaves_device(name, arguments, keywords):
        raise ValueReadError(
            f"{name} reads the value of a tensor, but a traced tensor has no value"
        )
    if name in _SAME:
        return _same(func, arguments[0], keywords.get("memory_format"))
    function = FUNCTIONS.get(func)
    if function is not None:
        return function(*arguments, **keywords)
    plain = _without_copy(func)
    repeats = plain is torch.ops.aten.repeat_interleave.Tensor
    if not has_rule(plain) or (repeats and keywords.get("output_size") is None):
        return _decomposed(plain, arguments, keywords)
    return _recorded(plain, arguments, keywords)


@cache
def _without_copy(func: Any) -> Any:
    """The operator that returns a view, for an operator that returns a copy instead."""
    name, _, kind = func.name().removeprefix("aten::").partition(".")
    if has_rule(func) or not name.endswith("_copy"):
        return func
    packet = getattr(torch.ops.aten, name.removesuffix("_copy"), None)
    return getattr(packet, kind or "default", func)


def _recorded(func: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    if func is torch.ops.aten.index.Tensor and any(map(_is_mask, arguments[1])):
        raise ValueReadError(
            "aten::index takes the elements of a mask, so the size of its result depends on values"
        )
    described = describe(func, arguments, keywords)
    if not isinstance(described, torch.Tensor | tuple | list):
        raise ValueReadError(f"{func.name()} returns a {type(described).__name__}")
    kept = {key: value for key, value in keywords.items() if key not in _MEMORY_ARGUMENTS}
    made = node(func, arguments, kept, described)
    if keywords.get("memory_format") in _CHANNELS_LAST:
        made.node.meta[REORDERED] = True
    return made


REORDERED = "reordered"
"""The key in `meta` of a node that marks results which PyTorch stores in another order, such as
channels last."""

ENCLOSING = "enclosing"
"""The key in `meta` of a placeholder for the node of the enclosing region that it represents."""

_CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


_MEMORY_ARGUMENTS = frozenset(["device", "layout", "pin_memory", "memory_format", "non_blocking"])
"""Arguments that change the memory of results, but not their values."""


def describe(func: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """The results of a call, on the device `meta`."""
    args, named = pytree.tree_map(_on_meta, (tuple(arguments), dict(keywords)))
    if _WITH_LAYOUT.get():
        func = _VIEWS.get(func, func)
    with describing():
        return func(*args, **named)


_VIEWS = {
    torch.ops.aten.t_copy.default: torch.ops.aten.t.default,
    torch.ops.aten.transpose_copy.int: torch.ops.aten.transpose.int,
}


def _on_meta(value: Any) -> Any:
    if isinstance(value, TracedTensor):
        return value.described
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    return torch.device("meta") if isinstance(value, torch.device) else value


def _same(func: Any, tensor: Any, memory_format: Any) -> TracedTensor:
    described = func(tensor.described) if isinstance(tensor, TracedTensor) else tensor.to("meta")
    if memory_format is torch.contiguous_format:  # views of it depend on its strides
        described = described.contiguous()
    if memory_format not in _CHANNELS_LAST:
        return TracedTensor(described, _as_node(tensor))
    made: TracedTensor = node(func, (tensor,), {}, described)
    made.node.meta[REORDERED] = True
    return made


def constant(tensor: torch.Tensor) -> TracedTensor:
    """A tensor with values as a constant of the graph.

    Raises:
        ForeignDataError: the tensor is large, or has no values.
        NoRuleError: the tensor is large, and the function is recorded outside of programs.
    """
    described = f"{tensor.dtype} of shape {list(tensor.shape)}"
    try:
        check_constant(described, tensor.numel() * tensor.element_size())
    except ForeignDataError as error:
        if current_apart() is None:
            raise
        raise NoRuleError(
            f"the decomposition holds a tensor that is not an operand, {described}; take it as an"
            " argument, or make constants from numbers, as with torch.full"
        ) from error
    if tensor.device.type == "meta":
        raise ForeignDataError(
            f"the module computes with a tensor, {described}, on the device meta that is not a"
            " parameter, buffer or argument; register it as a buffer"
        )
    graph = current_region().graph
    made = graph.create_node("get_attr", "constant", name="constant")
    values = torch_internals.functionalized(tensor).detach().cpu().contiguous().clone()
    made.meta["constant"] = values
    return TracedTensor(_described(made, values.to("meta")).meta["val"], made)


def _leaves_device(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Return whether a call copies a traced tensor to another device."""
    if name == "aten::_to_copy":
        asked = keywords.get("device")
        return asked is not None and torch.device(asked).type != _device().type
    if name in ("aten::copy", "aten::copy_"):
        to, source = arguments[:2]
        return isinstance(source, TracedTensor) and not isinstance(to, TracedTensor)
    return False


# ---- decompositions ----


_UNDERWAY: ContextVar[frozenset[Any]] = ContextVar("underway", default=frozenset())
"""The operators that this thread is decomposing."""


def _decomposed(func: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    in_program = current_apart() is None
    function = (
        lists.decomposition_of(func)
        or _decompositions(in_program).get(func)
        or torch_internals.decomposition_of(func)
        or torch_internals.aten_function(func)
    )
    if torch.Tag.dynamic_output_shape in func.tags:
        raise ValueReadError(f"the result of {func.name()} has a size that depends on values")
    if function is None and _makes_of_numbers(func, arguments, keywords):
        return constant(func(*arguments, **{**keywords, "device": torch.device("cpu")}))
    if function is None or func in _UNDERWAY.get():
        raise NoKernelError(
            f"{func.name()} has no rule in JAX, and PyTorch has no decomposition of it"
        )
    try:
        with with_value(_UNDERWAY, _UNDERWAY.get() | {func}):
            return from_top(function, arguments, keywords)
    except ZeroDivisionError as error:
        raise NoKernelError(f"{func.name()} has a size of 0, by which PyTorch divides") from error


def _makes_of_numbers(func: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Return whether a call makes a tensor of numbers, as `aten::hamming_window` does."""
    leaves = pytree.tree_leaves((arguments, keywords))
    takes_tensors = any(isinstance(leaf, torch.Tensor | torch.SymInt) for leaf in leaves)
    is_random = torch.Tag.nondeterministic_seeded in func.tags
    return "device" in keywords and not takes_tensors and not is_random


@cache
def _decompositions(in_program: bool) -> Mapping[Any, Kernel]:
    by_pytorch = {**torch_internals.all_decompositions(), **quantize.decompositions()}
    for_norms = norms.FOR_GRAPHS if in_program else norms.FOR_ENTRIES
    ours = {**for_norms, **linear_algebra.DECOMPOSITIONS, **OWN}
    return {**by_pytorch, **DECOMPOSITIONS, **ours}


_FUNCTIONALIZE = torch_internals.parse_key(FUNCTIONALIZATION_KEY)


@cache
def _top_of_dispatch() -> DispatchState:
    return torch_internals.fresh_dispatch_state()


@contextmanager
def at_top() -> Iterator[None]:
    """A context in which calls start at the top of the dispatcher, like a user's calls, whatever
    this thread is doing. No gradients are recorded."""
    apart = current_apart()
    is_functionalized = apart is not None and apart.writes
    with (
        torch_internals.without_modes(),
        torch_internals.dispatching_from(_top_of_dispatch()),
        describing(),
        capturing(),
        torch.no_grad(),
        # On the device of programs, PyTorch functionalizes by itself, but not on the CPU.
        torch_internals.including_key(_FUNCTIONALIZE) if is_functionalized else nullcontext(),
    ):
        yield


def from_top(function: Kernel, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a function with the traced tensors of a call below functionalization. The function may
    take views, and write to tensors that it made.

    If the function writes to its operands, as `aten::native_batch_norm` does although its schema
    does not say so, they keep the new values.
    """
    lent: list[tuple[TracedTensor, torch.Tensor]] = []

    def lend(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, TracedTensor):
            return tensor
        # A new tensor, because the version that autograd checks belongs to the tensor.
        lent.append(
            (tensor, torch_internals.functional(TracedTensor(tensor.described, tensor.node)))
        )
        return lent[-1][1]

    with at_top():
        args, named = pytree.tree_map_only(torch.Tensor, lend, (tuple(arguments), dict(keywords)))
        results = pytree.tree_map_only(torch.Tensor, traced, function(*args, **named))
        for operand, functional in lent:
            if torch_internals.version_of(functional) > 0:
                operand.node = traced(functional).node
        return results


def traced(tensor: torch.Tensor) -> TracedTensor:
    """The traced tensor behind a tensor of the user's program, after all writes to it."""
    before = torch_internals.without_writes(tensor) if len(_SHARED) > 1 else None
    with _in_region(before) if isinstance(before, TracedTensor) else nullcontext():
        inner = torch_internals.functionalized(tensor)
    return inner if isinstance(inner, TracedTensor) else constant(inner)
