"""Private interfaces of PyTorch, as in torch 2.9 to 2.15. Only lowering/verification/opinfo.py also
uses private names, for the samples of PyTorch's tests.

Names that start with an underscore can change between releases. This module wraps each of them in a
function that states its purpose, so that a new PyTorch release requires changes in one file only.
"""

import operator
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial, reduce
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, _meta_registrations
from torch._C._dynamo import eval_frame
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._functorch import pyfunctorch
from torch._guards import TracingContext
from torch._guards import tracing as tracing_with
from torch._prims_common import wrappers
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.amp import autocast_mode
from torch.autograd import forward_ad, grad_mode
from torch.optim import optimizer
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils
from torch.utils import _pytree as pytree
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)

from composites.contexts import with_attributes, with_last, with_setting
from composites.errors import UnsupportedCallError
from composites.tensor_subclasses import inner_tensors, with_inner_tensors
from composites.user_code import call_site

__all__ = ["DispatchKeySet", "TreeSpec", "pytree"]

DispatchKeySet: TypeAlias = torch._C.DispatchKeySet
TreeSpec: TypeAlias = pytree.TreeSpec
DispatchState: TypeAlias = tuple[Any, Any]
"""The dispatch keys that a thread includes and excludes."""


# ---- operators ----


def schemas_of(name: str) -> Sequence[Any]:
    """Return the schemas of all overloads of `aten::name`; empty if the operator does not exist.
    Overloads of TorchScript alone, such as `aten::add` of two lists, are left out."""
    if name.startswith("quantized_decomposed::"):  # this module registers these operators
        import_module("torch.ao.quantization.fx._decomposed")
    schemas = torch._C._jit_get_schemas_for_operator(name)
    if not name.startswith("aten::"):
        return schemas
    has_kernel = torch._C._dispatch_has_kernel
    return [s for s in schemas if has_kernel(f"{name}.{s.overload_name}".rstrip("."))]


def operator_names() -> list[str]:
    """Return the names of all operators, as `namespace::name`."""
    return sorted({schema.name for schema in torch._C._jit_get_all_schemas()})


def is_implicit_autograd(qualified: str) -> bool:
    """Return whether an operator has a CompositeImplicitAutograd kernel. PyTorch decomposes such an
    operator before the call reaches a backend."""
    key = "CompositeImplicitAutograd"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(qualified, key))


def takes_numbers(name: str) -> bool:
    """Return whether the operator `namespace::name` accepts Python numbers instead of tensors."""
    return bool(torch._C._should_allow_numbers_as_tensors(name.partition("::")[2]))


def kernel_origin(qualified: str, dispatch_key: str) -> str:
    """Return the dispatcher's text on where an operator's kernel for a key was registered."""
    table = torch._C._dispatch_dump_table(qualified).splitlines()
    return next((line for line in table if line.startswith(f"{dispatch_key}:")), "")


def python_kernel(overload: Any, dispatch_key: str) -> Callable[..., Any] | None:
    """Return the Python kernel that an operator has for a dispatch key besides its C++ kernel; None
    if it has none."""
    key = torch._ops.resolve_key(overload, getattr(torch._C.DispatchKey, dispatch_key))
    return overload.py_kernels.get(key)  # type: ignore[no-any-return]


def decomposition_of(function: Any) -> Callable[..., Any] | None:
    """Return PyTorch's decomposition of an operator; None if `function` has none or is not one."""
    if isinstance(function, torch._ops.OpOverload) and function._can_decompose():
        return function.decompose
    return None


def aten_function(operator: Any) -> Callable[..., Any] | None:
    """Return the function that an operator of `prims` implements; None for other operators (an
    attribute that `torch._prims` sets, in PyTorch 2.10 to 2.15)."""
    return getattr(operator, "impl_aten", None)


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return PyTorch's decompositions below autograd of all overloads that do not mutate."""
    return {
        overload: function
        for overload, function in decomposition_table.items()
        if isinstance(overload, torch._ops.OpOverload)
        and overload.namespace == "aten"
        and not overload._schema.is_mutable
    }


@cache
def all_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return `decompositions`, with the core aten decomposition where PyTorch has two."""
    return {**decompositions(), **core_aten_decompositions()}


def is_operator(target: Any) -> bool:
    """Return whether the target of a graph's node is an operator overload."""
    return isinstance(target, torch._ops.OpOverload)


def takes_functions(target: Any) -> bool:
    """Return whether the target of a graph's node is a higher-order operator, such as `cond`."""
    return isinstance(target, torch._ops.HigherOrderOperator)


def is_compiled(module: Any) -> bool:
    """Return whether a module is the wrapper that torch.compile returns."""
    return isinstance(module, torch.nn.Module) and type(module).__name__ == "OptimizedModule"


def takes_device(target: Any) -> bool:
    """Return whether the target of a graph's node is an operator that takes a device."""
    if isinstance(target, torch._ops.OpOverloadPacket):
        target = getattr(target, target.overloads()[0])  # type: ignore[no-untyped-call]
    return is_operator(target) and any(a.name == "device" for a in target._schema.arguments)


def add_higher_order_kernel(
    name: str, dispatch_key: str, kernel: Callable[..., Any], takes: Callable[[Tensor], bool]
) -> None:
    """Register a kernel of a higher-order operator, such as `torch.ops.higher_order.cond`, for the
    rest of the process. It takes calls with a tensor that `takes` accepts. If the kernel returns
    `NotImplemented`, PyTorch's kernel runs."""
    operator = getattr(torch.ops.higher_order, name)
    key = getattr(torch._C.DispatchKey, dispatch_key)
    try:
        stock = operator.py_kernels[torch._ops.resolve_key(operator, key)]
    except (NotImplementedError, KeyError):  # call the kernel of the next key

        def stock(*arguments: Any, **keywords: Any) -> Any:
            with excluding_key(key):
                return operator(*arguments, **keywords)

    operator.py_kernels.pop(key, None)

    def chosen(*arguments: Any, **keywords: Any) -> Any:
        leaves = pytree.tree_leaves((arguments, keywords))
        is_taken = any(isinstance(leaf, Tensor) and takes(leaf) for leaf in leaves)
        results = kernel(*arguments, **keywords) if is_taken else NotImplemented
        return stock(*arguments, **keywords) if results is NotImplemented else results

    operator.py_impl(key)(chosen)
    operator._dispatch_cache.clear()


def on_positions(
    function: Callable[..., Tensor],
    positions: Sequence[Tensor],
    buffers: Sequence[Any],
    scores: Tensor | None = None,
) -> Tensor:
    """Call a function that `flex_attention` takes for all positions.

    Args:
        positions: the indices of sequences, heads, queries and keys, as four vectors.
        scores: the scores of all positions, the first argument of a function that changes scores.
        buffers: the last arguments of the function.
    """
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    first = () if scores is None else (scores,)
    every = _vmap_for_bhqkv(function, prefix=(0,) * len(first), suffix=(None,) * len(buffers))
    with TransformGetItemToIndex():
        values: Tensor = every(*first, *positions, *buffers)
    return values


def offer_flex_attention(owns: Callable[[Tensor], bool]) -> None:
    """Let `flex_attention` take tensors that `owns` accepts. PyTorch only accepts a fixed list of
    devices, and has no gradient on the CPU."""
    from torch.nn.attention import flex_attention

    stock = flex_attention._validate_device

    def validate(query: Tensor, key: Tensor, value: Tensor) -> None:
        if not owns(query):
            stock(query, key, value)

    flex_attention._validate_device = validate


def block_masks_on(device: torch.device) -> AbstractContextManager[None]:
    """A context in which the block masks of `flex_attention` are on a device."""
    from torch.nn.attention.flex_attention import BlockMask

    name = "kv_num_blocks"  # PyTorch compares the device of this tensor

    def read(mask: Any) -> Tensor:
        blocks: Tensor = vars(mask)[name]
        return blocks.to(device)

    def write(mask: Any, blocks: Tensor) -> None:
        vars(mask)[name] = blocks

    return with_attributes(BlockMask, **{name: property(read, write)})


def forget_dispatch(overload: Any) -> None:
    """Clear the kernels that torch.compile's Python dispatcher caches for an operator."""
    overload._dispatch_cache.clear()


def include_key(key: str, included: bool) -> None:
    """Add a dispatch key to all calls of this thread, or stop adding it."""
    torch._C._dispatch_tls_set_dispatch_key_included(parse_key(key), included)


def remove_library(library: torch.library.Library) -> None:
    """Remove the kernels of a library from the dispatcher."""
    library._destroy()


# ---- a backend in Python ----


@contextmanager
def random_states_offered(
    name: str, read: Callable[[], Any], write: Callable[[Any], object]
) -> Iterator[None]:
    """A context in which `torch.random.fork_rng` and `torch.utils.checkpoint` keep the random state
    of a device without a module in `torch`. Both read the state from such a module (torch 2.15.0).

    `torch.get_device_module` caches its first result, so it must not be called with the module.
    """
    if hasattr(torch, name):
        yield
        return
    module: Any = ModuleType(f"torch.{name}")
    module.get_rng_state = lambda device=None: read()
    module.set_rng_state = lambda state, device=None: write(state)
    module.device = lambda device: nullcontext()
    module._initialized = True
    with with_attributes(torch, **{name: module}):
        yield


@contextmanager
def autocast_offered(
    device_type: str, state: str, turned: Callable[[bool], object]
) -> Iterator[None]:
    """A context in which `torch.autocast` accepts a device type for which PyTorch has no autocast
    (torch 2.15.0).

    Args:
        state: the device type whose autocast state is read and written instead.
        turned: called with the new state when autocast is turned on or off.
    """
    names = ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype")
    before = {name: getattr(torch, name) for name in (*names, "set_autocast_enabled")}

    def replaced(name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if arguments[:1] != (device_type,):
                return before[name](*arguments)
            result = before[name](state, *arguments[1:])
            if name == "set_autocast_enabled":
                turned(*arguments[1:])
            return result

        return call

    available = autocast_mode.is_autocast_available

    def is_available(type_: str) -> bool:
        return type_ == device_type or available(type_)

    with (
        with_attributes(torch, **{name: replaced(name) for name in before}),
        with_attributes(autocast_mode, is_autocast_available=is_available),
        with_attributes(torch.amp, is_autocast_available=is_available),
    ):
        yield


@contextmanager
def foreach_offered(device_type: str) -> Iterator[None]:
    """A context in which optimizers and `clip_grad_norm_` call `_foreach_` operators on a device
    type, as on accelerators (torch 2.15.0)."""
    functions: dict[str, Any] = {}
    for kind in ("foreach", "fused"):
        name = f"_get_{kind}_kernels_supported_devices"
        devices = [*getattr(_foreach_utils, name)(), device_type]
        functions[name] = devices.copy
    with with_attributes(_foreach_utils, **functions), with_attributes(optimizer, **functions):
        yield


def made_on_cpu() -> AbstractContextManager[None]:
    """A context in which `torch.tensor(values, device=…)` first makes a tensor on the CPU, and then
    copies it in a call that dispatch modes see."""
    api = torch._C
    return with_setting(api._only_lift_cpu_tensors, api._set_only_lift_cpu_tensors, True)


@contextmanager
def without_checks_of_values() -> Iterator[None]:
    """A context in which `torch.distributions` and `torch._check_tensor_all` do not read tensors to
    check them, in all threads."""
    with (
        with_attributes(torch.distributions.Distribution, _validate_args=False),
        with_attributes(torch, _check_tensor_all_with=lambda *_, **__: None),
    ):
        yield


def make_wrapper(cls: type[Tensor], described: torch.Tensor, device: torch.device) -> Any:
    """Make a tensor of a class with `__torch_dispatch__`. It has the sizes, strides and dtype of
    `described`, and no memory."""
    return torch.Tensor._make_wrapper_subclass(
        cls,
        described.shape,
        strides=described.stride(),
        storage_offset=described.storage_offset(),
        dtype=described.dtype,
        device=device,
    )


# ---- dispatch keys and the state of a thread ----


def key_set(*names: str) -> DispatchKeySet:
    """Return a set of dispatch keys."""
    keys: DispatchKeySet = reduce(operator.or_, map(DispatchKeySet, map(parse_key, names)))
    return keys


def parse_key(name: str) -> Any:
    """Return the dispatch key with a name, including keys that `DispatchKey` does not have."""
    return torch._C._dispatch_key_parse(name)


def keys_after(key: Any) -> Any:
    """Return the set of the dispatch keys after a key."""
    return torch._C._dispatch_keyset_full_after(key)


def operators_with_kernel(key: str) -> frozenset[str]:
    """Return the aten operators with a kernel for a dispatch key, as `name.overload`."""
    return frozenset(
        name.removeprefix("aten::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
    )


def includes_key(key: Any) -> bool:
    """Return whether this thread includes a dispatch key in every call."""
    return bool(torch._C._dispatch_tls_is_dispatch_key_included(key))


def in_python_dispatcher() -> bool:
    """Return whether PyTorch's Python dispatcher chooses kernels, as under torch.compile."""
    return includes_key(torch._C.DispatchKey.PythonDispatcher)


def including_key(key: Any) -> AbstractContextManager[Any]:
    """A context in which this thread includes a dispatch key."""
    return torch._C._IncludeDispatchKeyGuard(key)


def excluding_key(key: Any) -> AbstractContextManager[Any]:
    """A context in which this thread excludes a dispatch key."""
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key))


def asking_key(key: Any) -> AbstractContextManager[Any]:
    """A context in which a dispatch key that this thread includes is not excluded. Functions that
    `calls_through` calls exclude all keys above their own."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    return torch._C._ForceDispatchKeyGuard(included, excluded.remove(key))


def fresh_dispatch_state() -> DispatchState:
    """Return the dispatcher state of a new thread, in which calls of users start."""
    sets: list[Any] = []

    def read() -> None:
        sets.append(torch._C._dispatch_tls_local_include_set())
        sets.append(torch._C._dispatch_tls_local_exclude_set())

    thread = threading.Thread(target=read, name="composites-dispatch-state")
    thread.start()
    thread.join()
    return sets[0], sets[1]


def dispatching_from(state: DispatchState) -> AbstractContextManager[Any]:
    """A context with this dispatcher state."""
    return torch._C._ForceDispatchKeyGuard(*state)


def without_modes() -> AbstractContextManager[Any]:
    """A context without the active dispatch modes, such as those of torch.compile."""
    return _disable_current_modes()


def _holds_tensors(type_: type) -> bool:
    """Return whether tensors of a class hold inner tensors with which its `__torch_dispatch__`
    computes. DTensor only calls the operator again."""
    distributed = sys.modules.get("torch.distributed.tensor")
    is_distributed = distributed is not None and issubclass(type_, distributed.DTensor)
    return hasattr(type_, "__tensor_flatten__") and not is_distributed


class _Watching(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, around: Callable[..., Any], inside: Callable[..., Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._around, self._inside = around, inside

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if takes_functions(func):
            raise UnsupportedCallError(f"{func.name()} is a higher-order operator without a rule")
        subclass = next(filter(_holds_tensors, types), None)
        if subclass is not None:
            dispatch = partial(subclass.__torch_dispatch__, func, types)
            with self, asking_key(torch._C.DispatchKey.Functionalize), WritingToHolders():
                return self._inside(dispatch, func, args, kwargs or {})
        return self._around(func, args, kwargs or {})


_IN_PLACE = {name for name in dir(operator) if re.fullmatch(r"__i(?!nv|ndex)\w+__", name)}
"""Names of in-place operators, such as `__iadd__`."""


class WritingToHolders(TorchFunctionMode):
    """A context inside `calls_through` in which operators may write to tensors that hold others.
    Functionalization rejects these writes, so such a tensor's class gets the original operands."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        is_in_place = name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))
        first = next(iter((*args, *(kwargs or {}).values())), None)
        if not is_in_place or not hasattr(first, "__tensor_flatten__"):
            return func(*args, **(kwargs or {}))
        modes = _get_current_dispatch_mode_stack()  # type: ignore[no-untyped-call]
        is_watched = any(isinstance(mode, _Watching) for mode in modes)
        with excluding_key(torch._C.DispatchKey.Functionalize) if is_watched else nullcontext():
            return func(*args, **(kwargs or {}))


def without_torch_function() -> AbstractContextManager[Any]:
    """A context in which `__torch_function__` of tensor subclasses is not called."""
    disabled: Any = torch._C.DisableTorchFunctionSubclass
    return disabled()  # type: ignore[no-any-return]


def _dispatched(dispatch: Callable[..., Any], func: Any, arguments: Any, keywords: Any) -> Any:
    return dispatch(arguments, keywords)


def calls_through(
    around: Callable[..., Any], inside: Callable[..., Any] = _dispatched
) -> AbstractContextManager[Any]:
    """A context in which `around(overload, arguments, keywords)` makes each call below autograd and
    functionalization, in this thread and in autograd's threads for it.

    Args:
        inside: `inside(dispatch, overload, arguments, keywords)` makes a call with a tensor that
            holds inner tensors, by `dispatch(arguments, keywords)`. `around` then makes the calls
            with the inner tensors.
    """
    return _Watching(around, inside)


def dispatch_mode() -> str | None:
    """Return the name of an active dispatch mode of this thread, such as FlopCounterMode; None if
    there is none.

    Tracing modes of PyTorch and of this project do not count.
    """
    if not torch._C._len_torch_dispatch_stack():
        return None
    for mode in _get_current_dispatch_mode_stack():  # type: ignore[no-untyped-call]
        if type(mode) is not _Watching and not mode.is_infra_mode():
            return type(mode).__name__.removeprefix("_")  # the class may be private
    return None


def sequence_number() -> int:
    """Return the number of the next autograd node that this thread makes."""
    return torch._C._autograd._get_sequence_nr()


def running_node() -> int | None:
    """Return the number of the autograd node that this thread runs; None outside a backward.

    All nodes that add to `.grad` have the same, very large number.
    """
    node: Any = torch._C._current_autograd_node()
    return None if node is None else int(node._sequence_nr())


def running_formula() -> str:
    """Return the name of the autograd node that this thread runs, such as `LinalgSvdBackward0`;
    empty outside a backward."""
    node: Any = torch._C._current_autograd_node()
    return "" if node is None else str(node.name())


def functions_applied_to(
    replacement: Callable[[Tensor], Tensor],
) -> AbstractContextManager[None]:
    """A context in which every `torch.autograd.Function` is applied to the replacements of its
    tensors. `TorchFunctionMode` does not see these calls."""
    function: Any = torch.autograd.Function
    stock = vars(function)["apply"]

    def apply(cls: Any, *arguments: Any, **keywords: Any) -> Any:
        replaced = pytree.tree_map_only(Tensor, replacement, (arguments, keywords))
        return stock.__get__(None, cls)(*replaced[0], **replaced[1])

    return with_attributes(function, apply=classmethod(apply))


@contextmanager
def without_saved_tensors_hooks() -> Iterator[None]:
    """A context without the user's hooks for saved tensors."""
    api = torch._C._autograd
    hooks: list[Any] = []
    while (top := api._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(top)
        api._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            api._push_saved_tensors_default_hooks(pack, unpack)


# ---- the graph of autograd ----

_SAME_ROWS = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "AliasBackward0")
"""Nodes whose result has the elements of the operand in the same order."""
_CAST = "ToCopyBackward0"


def operands_of_product(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the operands of the `aten::mm` that computed a matrix, perhaps viewed and cast once.

    The operands are the tensors that autograd saved. Nothing else keeps them alive, and an operand
    that was written to later is an error.

    Raises:
        LookupError: the matrix is not only the result of `aten::mm`; the message says why.
    """
    node = matrix.grad_fn
    if node is None or not torch.is_grad_enabled():
        raise LookupError("no gradient is computed, so the origin of the logits is unknown")
    if matrix._version:
        raise LookupError("the logits were written to")
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        raise LookupError("hooks of saved tensors are in use, as by checkpointing")
    if matrix._backward_hooks or matrix.retains_grad:
        raise LookupError("the logits have hooks, or retain_grad() was called")
    casts = 0
    while node is not None and (node.name() in _SAME_ROWS or node.name() == _CAST):
        casts += node.name() == _CAST
        node = node.next_functions[0][0]
    if node is None or node.name() != "MmBackward0":
        last = "a leaf" if node is None else node.name()
        raise LookupError(f"the logits are not the result of a product alone, but of {last}")
    if casts > 1:
        raise LookupError("the logits were cast more than once")
    product: Any = node
    try:
        left, right = product._saved_self, product._saved_mat2
    except RuntimeError:  # freed by a backward, or another version
        raise LookupError("an operand of the logits was written to, or is gone") from None
    if left is None or right is None:
        raise LookupError("the states or the weight need no gradient")
    if matrix.shape != (left.size(0), right.size(1)):
        raise LookupError("the logits were rearranged")
    return left, right


def transpose_of(matrix: torch.Tensor) -> torch.Tensor:
    """Return `matrix.t()`, or the leaf whose transpose the matrix is.

    A backward then returns the leaf's gradient itself. With two transposes, the gradient would be a
    view of a view, and torch_xla would compute and keep both views while the gradient is alive.
    """
    node: Any = matrix.grad_fn
    if node is not None and node.name() == "TBackward0":
        leaf = getattr(node.next_functions[0][0], "variable", None)
        # `leaf.data = …` gives a leaf new memory, which the matrix does not share.
        if isinstance(leaf, torch.Tensor) and torch._C._is_alias_of(matrix, leaf):  # type: ignore[attr-defined]
            return leaf
    return matrix.t()


# ---- tensors and transforms ----


def stands_for_a_tensor(tensor: torch.Tensor) -> bool:
    """Return whether a tensor stands for a real tensor while torch.compile traces."""
    return isinstance(tensor, FunctionalTensor | FakeTensor)


def is_not_persistent(module: torch.nn.Module, buffer: str) -> bool:
    """Return whether the `state_dict` of a module leaves out a buffer."""
    owner, _, leaf = buffer.rpartition(".")
    return leaf in module.get_submodule(owner)._non_persistent_buffers_set


def functional(tensor: torch.Tensor) -> torch.Tensor:
    """Wrap a backend's tensor for functionalization."""
    return torch._to_functional_tensor(tensor)


def functionalized(tensor: torch.Tensor) -> torch.Tensor:
    """Return the backend's tensor in a functional tensor, after applying all writes to it."""
    if not torch._is_functional_tensor(tensor):
        return tensor
    torch._functionalize_sync(tensor)
    return torch._from_functional_tensor(tensor)


def without_writes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the backend's tensor in a functional tensor, without applying pending writes to its
    base. Nothing is computed."""
    if not torch._is_functional_tensor(tensor):
        return tensor
    return torch._from_functional_tensor(tensor)


def base_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the base of a view, or the tensor itself if it is not a view."""
    return tensor if tensor._base is None else tensor._base


def version_kept(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """A context in which writes to a tensor do not raise the version that autograd checks."""
    return grad_mode._unsafe_preserve_version_counter(tensor)


def share_memory(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether tensors share memory, so that a write to one tensor may change another. Dynamo
    cannot trace this, and has its own check."""
    if torch.compiler.is_compiling():
        return False
    return len({tensor.untyped_storage()._cdata for tensor in tensors}) < len(tensors)


def assign(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Copy a value to a tensor as `tensor.copy_(value)` does. A tensor of a lazy backend gets a new
    number, as after any other in-place operation.

    `copy_` on torch_xla (2.9) keeps the number of the tensor, and torch_xla orders the results of a
    graph by these numbers. XLA assigns the buffers of arguments to results in this order, so
    parameters and an optimizer's state would swap buffers, which takes copies.
    """
    if (
        torch.compiler.is_compiling()
        or stands_for_a_tensor(tensor)
        or tensor.is_inference()
        or not torch._is_functional_tensor(tensor)
        or not torch._is_functional_tensor(value)
        or (tensor.shape, tensor.dtype) != (value.shape, value.dtype)
        or tensor.device != value.device
        or tensor.device.type != "xla"
    ):
        tensor.copy_(value)
        return
    new = torch._from_functional_tensor(value.clone())
    torch.ops.aten._propagate_xla_data(torch._from_functional_tensor(tensor), new)
    torch._functionalize_replace(tensor, new)
    torch._functionalize_commit_update(tensor)
    torch._functionalize_sync(tensor)
    torch.autograd.graph.increment_version(tensor)


def renew(tensor: torch.Tensor) -> None:
    """Give a tensor of a lazy backend a new number, as `assign` does, and keep its value.

    The tensor is no longer a view of its base, which torch_xla computes and keeps as long as the
    base has views. Users cannot observe this: tensors that share memory are not changed.
    """
    if (
        torch._is_functional_tensor(tensor)
        and not tensor.is_inference()
        and tensor._base is None
        and owns_memory(tensor)
    ):
        tensor.data = tensor.detach().clone()


def owns_memory(tensor: torch.Tensor) -> bool:
    """Return whether no other tensor shares the memory of a tensor."""
    storage = tensor.untyped_storage()
    own_reference = 1  # `storage` itself
    return bool(torch._C._storage_Use_Count(storage._cdata) == own_reference + 1)


def assign_all(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """`assign` the results of an operator to the operands that they replace.

    Args:
        tensors: the replaced operands, in the operator's order and without shared memory. Each
            result then gets the memory of its operand, because torch_xla numbers the arguments of a
            graph from the last operand to the first.
    """
    for tensor, value in zip(reversed(tensors), reversed(values), strict=True):
        assign(tensor, value)


def printing(text_of: Callable[[Any], str | None]) -> AbstractContextManager[None]:
    """A context in which tensors print as `text_of(tensor)`, or as usual if that is None."""
    original = torch._tensor_str._str

    def text(self: Any, *, tensor_contents: Any = None) -> str:
        shown = text_of(self)
        if shown is not None:
            return shown
        return str(original(self, tensor_contents=tensor_contents))  # type: ignore[no-untyped-call]

    return with_attributes(torch._tensor_str, _str=text)


def is_transformed() -> bool:
    """Return whether a torch.func transform or forward-mode AD is active."""
    return (
        forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None
    )


def is_batched(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a batch of `torch.autograd.grad(…, is_grads_batched=True)`.

    `is_transformed` does not detect this older form of vmap.
    """
    return torch._C._functorch.is_legacy_batchedtensor(tensor)


@contextmanager
def untransformed() -> Iterator[None]:
    """A context outside all transforms of torch.func and batched gradients.

    In it, tensors that no transform has wrapped can require gradients, and random numbers can be
    drawn, which vmap rejects.
    """
    with (
        pyfunctorch.temporarily_clear_interpreter_stack(),
        excluding_key(parse_key("VmapMode")),
    ):
        yield


# ---- torch.compile and torch.export ----


def keep_dynamo_out(kernel: Callable[..., Any]) -> None:
    """Make Dynamo run a kernel and its callees without tracing them, as C++ kernels.

    Otherwise Dynamo traces their frames if an operator is called from a frame that Dynamo skipped.
    """
    skipped = eval_frame._FrameExecStrategy(
        eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP
    )
    eval_frame.set_code_exec_strategy(kernel.__code__, skipped)


@contextmanager
def exporting() -> Iterator[None]:
    """A context in which `torch.compiler.is_exporting()` is True, and in which functions with
    `torch.compiler.nested_compile_region` are called directly. PyTorch would start Dynamo."""
    regions = import_module("torch._higher_order_ops.invoke_subgraph")
    with (
        with_attributes(torch.compiler, _is_compiling_flag=True, _is_exporting_flag=True),
        with_attributes(regions, invoke_subgraph_placeholder=lambda f, *a, **named: f(*a, **named)),
    ):
        yield


@dataclass(frozen=True, slots=True)
class SizeGuard:
    """A condition that symbolic sizes must meet."""

    text: str
    location: str
    """`file:line: ` of the user's code that caused the guard; empty if there is none."""


class SizeSymbols:
    """Symbolic sizes, and the guards that PyTorch records about them."""

    def __init__(self) -> None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        guards: list[SizeGuard] = []

        class Symbols(ShapeEnv):
            def _log_guard(self, prefix: str, g: Any, forcing_spec: bool) -> None:
                # Before broadcasting, PyTorch checks whether a size is 0 or 1.
                if not (g.is_Relational and g.rel_op == "!=" and g.rhs in (0, 1)):
                    line = call_site(sys._getframe())
                    guards.append(SizeGuard(_python_text(g), f"{line}: " if line else ""))
                super()._log_guard(prefix, g, forcing_spec)

            def evaluate_expr(self, orig_expr: Any, *arguments: Any, **keywords: Any) -> Any:
                if _FOR_ALL_SIZES and self._maybe_evaluate_static(orig_expr) is None:
                    raise UnsupportedCallError("it depends on a size that varies")
                return super().evaluate_expr(orig_expr, *arguments, **keywords)

        self.guards: Sequence[SizeGuard] = guards
        self._env = Symbols()

    def add(self, name: str, example: int, least: int, largest: int | None) -> torch.SymInt:
        """Add a symbolic size.

        Args:
            example: the size with which PyTorch decides conditions that depend on the size.
        """
        from torch._dynamo.source import ConstantSource
        from torch.fx.experimental.symbolic_shapes import DimDynamic, StrictMinMaxConstraint
        from torch.utils._sympy.numbers import int_oo
        from torch.utils._sympy.value_ranges import ValueRanges

        source = ConstantSource(name)
        bounds = ValueRanges(least, int_oo if largest is None else largest)
        symbol = self._env.create_symbol(
            example, source, DimDynamic.DYNAMIC, StrictMinMaxConstraint(vr=bounds, warn_only=False)
        )
        size: torch.SymInt = self._env.create_symintnode(symbol, hint=example, source=source)
        return size


_FOR_ALL_SIZES: list[bool] = []


def for_all_sizes() -> AbstractContextManager[object]:
    """A context in which PyTorch uses no example sizes: a condition that is not the same for all
    sizes raises UnsupportedCallError."""
    return with_last(_FOR_ALL_SIZES, True)


def _python_text(expression: Any) -> str:
    from torch.utils._sympy.printers import PythonPrinter

    return str(PythonPrinter().doprint(expression))


def text_of_size(size: torch.SymInt | torch.SymFloat) -> str:
    """Write a size as a Python expression."""
    return _python_text(size.node.expr)


def is_key(value: Any) -> bool:
    """Return whether a value is a symbolic size that can be hashed; see `hashable_sizes`."""
    if not isinstance(value, torch.SymInt | torch.SymFloat):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


def example_of(size: torch.SymInt) -> int:
    """Return the example with which PyTorch decides conditions on a size."""
    return int(size.node.hint)


def is_plain_fake(value: Any) -> bool:
    """Return whether a value is a fake tensor that has strides, and not one of a subclass."""
    return type(value) is FakeTensor and value.layout is torch.strided


def with_example_sizes(fake: Tensor) -> Tensor | None:
    """Return a tensor of the meta device with the sizes and strides of a fake tensor, which can be
    symbolic; None for symbols without examples, and for tensors that are not plain fake ones."""
    if not is_plain_fake(fake):
        return None
    symbols = [n for n in (*fake.shape, *fake.stride()) if isinstance(n, torch.SymInt)]
    if not all(symbol.node.has_hint() for symbol in symbols):
        return None
    sizes, strides = (
        [example_of(n) if isinstance(n, torch.SymInt) else n for n in numbers]
        for numbers in (fake.shape, fake.stride())
    )
    return torch.empty_strided(sizes, strides, device="meta")


def bounds_of(size: torch.SymInt) -> tuple[int, int | None]:
    """Return the least and the greatest value of a size; None if it has no upper bound."""
    bounds = size.node.shape_env.bound_sympy(size.node.expr)
    return int(bounds.lower), int(bounds.upper) if bounds.upper.is_Integer else None


def python_kernels() -> AbstractContextManager[Any]:
    """A context in which operators use their Python kernels, if they have any. Many C++ kernels do
    not accept symbolic sizes."""
    from torch._dispatch.python import enable_python_dispatcher

    return enable_python_dispatcher()


_DECOMPOSED_EARLY = ("dropout", "gru", "lstm", "native_batch_norm")
"""Operators that `python_kernels` decomposes before a kernel of a backend is called."""
_UPSAMPLING = ("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d")
"""More such operators. Symbolic sizes need the decomposition: the C++ kernels take numbers."""


@contextmanager
def decomposed_late(names: Sequence[str] = _DECOMPOSED_EARLY) -> Iterator[None]:
    """A context in which `python_kernels` leaves operators to a kernel of the backend."""
    all_decompositions()  # must be read before: without their kernels, PyTorch selects others
    packets = [getattr(torch.ops.aten, name) for name in names]
    overloads = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    keys = [parse_key(key) for key in ("Autograd", "CompositeImplicitAutograd")]
    kept: list[tuple[Any, dict[Any, Any]]] = []
    for overload in overloads:
        kernels = overload.py_kernels
        kept.append((overload, {key: kernels.pop(key) for key in keys if key in kernels}))
        forget_dispatch(overload)
    try:
        yield
    finally:
        for overload, kernels in kept:
            overload.py_kernels.update(kernels)
            forget_dispatch(overload)


@contextmanager
def hashable_sizes() -> Iterator[None]:
    """A context in which symbolic sizes are hashable, by their expressions."""

    def hashed(size: Any) -> int:
        return hash((id(size.node.shape_env), size.node.expr))

    with (
        with_attributes(torch.SymInt, __hash__=hashed),
        with_attributes(torch.SymFloat, __hash__=hashed),
    ):
        yield


def resize_out(out: Tensor, shape: torch.Size) -> None:
    """Resize a tensor that was passed as `out=` to the shape of the result. PyTorch warns if the
    tensor has elements and another shape."""
    wrappers._maybe_resize_out(out, shape)


def is_metadata_check(target: Any) -> bool:
    """Return whether a node of an exported graph only checks dtype, device and layout."""
    return target is torch.ops.aten._assert_tensor_metadata.default


# ---- a backend of torch.compile ----


TENSOR_OF_TENSORS = torch._refs.tensor
"""The function in graphs of Dynamo for `torch.tensor` of a list that contains tensors or sizes."""


def device_constructors() -> frozenset[Any]:
    """Return the functions that make tensors and take `device`."""
    return frozenset({*_device_constructors(), TENSOR_OF_TENSORS})


def enters_autocast(target: Any) -> bool:
    """Return whether a call in a graph of Dynamo enters autocast of a device type."""
    return target is autocast_mode._enter_autocast


def below_autograd() -> AbstractContextManager[Any]:
    """A context in which calls start below autograd."""
    return torch._C._AutoDispatchBelowAutograd()


tensor_from_dlpack: Callable[[Any], Tensor] = torch._C._from_dlpack
"""Make a tensor that shares the memory of a DLPack capsule. `torch.utils.dlpack.from_dlpack` does
the same after checking for other kinds of objects (2.14)."""


def version_of(tensor: Tensor) -> int:
    """Return the number of writes to a tensor that autograd counts; 0 for inference tensors."""
    return 0 if tensor.is_inference() else int(tensor._version)


def storage_key(tensor: Tensor) -> int:
    """Return a number that is equal for tensors that share memory."""
    return int(tensor.untyped_storage()._cdata)


def refuse_access(tensor: Tensor, message: str) -> None:
    """Let PyTorch raise an error with this message when an operator accesses a tensor's storage.
    NumPy arrays that share the memory can still access it."""
    torch._C._set_storage_data_ptr_access_error_msg(storage_key(tensor), message)


def fakes(values: Sequence[Any], device: torch.device) -> list[Any]:
    """Return values with fake tensors on another device instead of tensors, for the running trace
    of torch.compile. Fakes of tensors that share memory share memory too."""
    context = TracingContext.try_get()
    assert context is not None
    mode = context.fake_mode
    assert mode is not None
    storages: dict[int, torch.UntypedStorage] = {}
    bases: dict[int, Any] = {}
    inner = (tensor for value in values for _, tensor in inner_tensors("", value))
    sharing = Counter(storage_key(tensor) for tensor in inner if isinstance(tensor, Tensor))

    def fake_alone(value: Tensor) -> Any:
        with without_modes(), torch.no_grad():
            empty = torch.empty(value.untyped_storage().nbytes(), dtype=torch.uint8, device="meta")
            storage = storages.setdefault(storage_key(value), empty.untyped_storage())
            described = torch.empty(0, dtype=value.dtype, device="meta")
            size, stride = map(int, value.shape), map(int, value.stride())
            described.set_(storage, int(value.storage_offset()), tuple(size), tuple(stride))
            made: Any = FakeTensor(mode, described, device)
            made.requires_grad_(value.requires_grad)
        with without_modes(), torch.set_grad_enabled(True):  # AOTAutograd hides writes to leaves
            return made if value.is_leaf else made.detach().copy_(made)

    def fake(name: str, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        made, base = fake_alone(value), base_of(value)
        if sharing[storage_key(value)] > 1 and base.dtype == value.dtype:
            # A graph that writes to one of several views takes their base.
            shared = bases.setdefault(id(base), made if base is value else fake_alone(base))
            place = made.shape, made.stride(), made.storage_offset()
            with without_modes(), torch.set_grad_enabled(value.requires_grad):
                view = shared if base is value else shared.as_strided(*place)
                made = view.requires_grad_(value.requires_grad)
        if isinstance(value, torch.nn.Parameter):
            made._is_param = True
        return made

    return [with_inner_tensors("", value, fake) for value in values]


PRODUCTS_OF_LISTS = frozenset(
    [torch._foreach_mul, torch._foreach_mul_, torch._foreach_div, torch._foreach_div_]
)
"""Functions of lists of tensors that take one factor for all, a number or a tensor."""


@contextmanager
def tracing() -> Iterator[None]:
    """A context in which graphs are compiled outside of a trace of torch.compile, even if PyTorch
    2.10 has left the trace's fake mode active. No other thread may trace at the same time, because
    AOTAutograd replaces methods of modules for the whole process."""
    from torch._dynamo.convert_frame import compile_lock
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    with compile_lock, without_modes(), tracing_with(TracingContext(mode)):
        yield


def compile_ahead(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    compile_graph: Callable[..., Any],
    *,
    runs_here: bool,
    sources: Sequence[str],
) -> Callable[..., Any]:
    """Compile the forward and the backward of a graph of Dynamo with AOTAutograd.

    The backward recomputes the forward only for the user's checkpointing and for views of inputs.

    Args:
        compile_graph: takes a graph, fake tensors, and `returned`: for a forward with a backward,
            the number of results that are returned; the remaining results are saved for the
            backward. Except for a backward, it takes `written`: the positions of the inputs that
            are written to, whose new values the graph returns first.
        runs_here: True for programs of this package. Their backward may draw random numbers of the
            forward again, by operators that keep the state of the generator. They make effect
            tokens themselves, which otherwise are inputs and results. Their backward takes None for
            a result without a gradient, for which autograd would make zeros.
        sources: Dynamo's source of each input, and of each inner tensor of a tensor subclass. The
            inputs of the compiled graphs have their source under `SOURCE` in `meta`.
    """
    from torch._functorch import config
    from torch._functorch._aot_autograd import graph_compile
    from torch._functorch.aot_autograd import aot_module_simplified  # takes a second to import
    from torch._functorch.partitioners import default_partition

    returned: list[int] = []
    names = list(sources)

    def partition(joint: torch.fx.GraphModule, *arguments: Any, **keywords: Any) -> Any:
        _view_inputs_again(joint.graph)
        results = joint.graph.output_node().meta["desc"]
        changed = {getattr(result, "mutated_input", None) for result in results} - {None}
        for node in joint.graph.nodes:
            # In the backward, inputs that the graph writes to, as in batch norm, have new values.
            reads_changed = any(n.meta.get("desc") in changed for n in node.all_input_nodes)
            tags = node.target.tags if is_operator(node.target) else ()
            draws = torch.Tag.nondeterministic_seeded in tags
            if "recompute" in node.meta and (reads_changed or (draws and not runs_here)):
                for saved in (node, *node.users):
                    if "recompute" in saved.meta:
                        saved.meta["recompute"] = torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE
        returned.append(keywords["num_fwd_outputs"])
        return default_partition(joint, *arguments, **keywords)

    def forward(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        _note_sources(gm.graph, names, is_backward=False)
        metadata = torch._guards.TracingContext.get().fw_metadata
        written = metadata.mutated_inp_runtime_indices if metadata is not None else ()
        count = returned[-1] if returned else None  # without a backward, nothing was partitioned
        return compile_graph(gm, example_inputs, returned=count, written=written)

    def backward(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        _note_sources(gm.graph, names, is_backward=True)
        return compile_graph(gm, example_inputs, returned=None)

    # A backward that cannot be compiled must raise its error before the forward runs.
    settings = {"force_non_lazy_backward_lowering": True, "unlift_effect_tokens": runs_here}
    with (
        config.patch(settings),
        _with_reasons(),
        # Not for all operators: the decomposition of batch norm, for example, returns its averages.
        decomposed_late(_UPSAMPLING),
        # A backward must not reuse the memory of saved tensors, so that it can run again. PyTorch
        # 2.15 rejects a second run even if its option `donated_buffer` is off.
        with_attributes(graph_compile, collect_bw_donated_buffer_idxs=lambda *_: []),
        # Overload packets and torchao 0.18 print tensors, which would copy them to the CPU.
        with_attributes(FunctionalTensor, __repr__=object.__repr__),
    ):
        made: Callable[..., Any] = aot_module_simplified(
            module,
            inputs,
            fw_compiler=forward,
            bw_compiler=backward,
            partition_fn=partition,
            keep_inference_input_mutations=False,
        )
    if not runs_here or not returned:
        return made

    def run(*arguments: Any) -> Any:
        results = made(*arguments)
        _leave_gradients_out(results)
        return results

    return run


@contextmanager
def _with_reasons() -> Iterator[None]:
    """A context in which AOTAutograd says why it cannot trace a graph. For an operator that PyTorch
    cannot describe, it would call the operator with zeros on the device of the tensors.

    Raises:
        UnsupportedCallError: PyTorch does not support a part of the graph.
    """
    mode = TracingContext.get().fake_mode
    # The checks of empty batches need a bool (torch 2.15.0).
    with_bools = with_attributes(_meta_registrations, multiply_integers=lambda sizes: all(sizes))
    with with_attributes(mode, allow_fallback_kernels=False), with_bools:
        try:
            yield
        except UnsupportedOperatorException as error:
            raise UnsupportedCallError(
                f"PyTorch has no kernel for tensors without values of {error}"
            ) from error
        except (AssertionError, NotImplementedError) as error:
            is_view = str(error).startswith("aot_autograd() does not yet handle")
            if not (is_view or str(error).startswith("Could not run")):
                raise
            hint = ", because of a sparse gradient (sparse=True)" if "Sparse" in str(error) else ""
            raise UnsupportedCallError(f"PyTorch cannot trace it{hint}: {error}") from error


def _leave_gradients_out(results: Sequence[Any]) -> None:
    """Let autograd pass None to the backward of a graph of AOTAutograd for results without a
    gradient. This does not work for tensor subclasses, which AOTAutograd flattens, and for compiled
    autograd, which traces operators with the gradients."""
    from torch._dynamo import compiled_autograd, config

    tensors = [result for result in results if isinstance(result, Tensor)]
    is_plain = all(type(tensor) is Tensor for tensor in tensors)
    # If the setting is on, a later call of the backward may be traced.
    is_traced = compiled_autograd.compiled_autograd_enabled or config.compiled_autograd
    if not is_plain or is_traced:
        return
    for tensor in tensors:
        node: Any = tensor.grad_fn
        if hasattr(getattr(node, "_forward_cls", None), "_aot_id"):  # all results share this node
            node.set_materialize_grads(False)
            return


def not_traced(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Wrap a function of a list, as AOTAutograd calls it, so that Dynamo does not trace it.

    PyTorch 2.10 copies the attributes of the function to AOTAutograd's wrapper, and would call the
    attribute that `torch.compiler.disable` adds, which is the function itself.
    """
    run: Any = torch.compiler.disable(function)
    vars(run).pop("_torchdynamo_orig_callable", None)
    run._boxed_call = True
    return cast(Callable[[list[Any]], Any], run)


def input_sources(graph: torch.fx.Graph) -> list[str]:
    """Return the expressions by which Dynamo read the inputs of its graph, such as `L['x']`; empty
    for inputs without one."""
    return [_source(node) for node in graph.find_nodes(op="placeholder")]


def _source(node: torch.fx.Node) -> str:
    name = getattr(getattr(node.meta.get("grapharg"), "source", None), "name", "")
    return str(name() if callable(name) else name)  # a method in PyTorch 2.10


def _note_sources(traced: torch.fx.Graph, sources: list[str], *, is_backward: bool) -> None:
    """Record the sources of tensors on the inputs of a graph of AOTAutograd, which are called
    `primals_1` or, without a backward, `arg0_1` (PyTorch 2.14). If AOTAutograd's inputs differ from
    Dynamo's, as for tensors that share memory, `sources` is cleared."""
    numbered: dict[int, torch.fx.Node] = {}
    for node in traced.find_nodes(op="placeholder"):
        match = re.fullmatch(r"primals_(\d+)|arg(\d+)_1", node.name)
        if match is not None:
            numbered[int(match[2]) if match[1] is None else int(match[1]) - 1] = node
    if not is_backward and sorted(numbered) != list(range(len(sources))):
        sources.clear()
    for number, node in numbered.items():
        node.meta[SOURCE] = sources[number] if sources else ""


SOURCE = "composites_source"
"""The key of Dynamo's source in `meta` of the inputs of AOTAutograd's graphs."""


def is_token(operator: Any) -> bool:
    """Return whether an operator makes or ends a token of `with_effects`, which keeps calls in
    order (PyTorch 2.14)."""
    return operator in (torch.ops.prims._make_token.default, torch.ops.prims._sink_tokens.default)


def is_check_of_errors(operator: Any) -> bool:
    """Return whether an operator raises an error for a status that LAPACK returned."""
    return operator is torch.ops.aten._linalg_check_errors.default


def restarts_trace(error: Exception) -> bool:
    """Return whether an error lets Dynamo trace again, as for a scalar of f64."""
    from torch._dynamo.exc import RestartAnalysis

    return isinstance(error, RestartAnalysis)


def _view_inputs_again(joint: torch.fx.Graph) -> None:
    """Let the backward part of a joint graph make its own views of inputs, such as transposed
    weights, so that autograd saves the inputs instead of the views."""
    nodes = list(joint.nodes)
    is_forward = [node.meta.get("partitioner_tag") == "is_forward" for node in nodes]
    if not any(is_forward):
        return
    end = len(nodes) - is_forward[::-1].index(True)
    again: dict[torch.fx.Node, torch.fx.Node] = {}
    with joint.inserting_before(nodes[end]):
        for node in nodes[:end]:
            owner = node.args[0] if getattr(node.target, "is_view", False) else None
            if not isinstance(owner, torch.fx.Node) or len(node.all_input_nodes) > 1:
                continue
            if owner in again or owner.op == "placeholder":
                again[node] = joint.node_copy(node, lambda old: again.get(old, old))
                again[node].meta["partitioner_tag"] = "is_backward"
                again[node].meta.pop("recompute", None)
    backward = {node for node in nodes[end:] if node.op != "output"}
    for node, view in reversed(again.items()):
        node.replace_all_uses_with(view, backward.__contains__)
        if not view.users:
            joint.erase_node(view)


def is_full_graph() -> bool:
    """Return whether the running trace of torch.compile has `fullgraph=True`."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    return bool(InstructionTranslator.current_tx().one_graph)


def backend_of_name(name: str) -> Any:
    """Return the backend of Dynamo with a name.

    Raises:
        LookupError: no package has registered a backend of this name.
    """
    from torch._dynamo import list_backends, lookup_backend
    from torch._dynamo.exc import InvalidBackend

    try:
        backend = lookup_backend(name)
    except InvalidBackend:
        names = ", ".join(list_backends())
        raise LookupError(f"there is no backend {name!r}; there are: {names}") from None
    if name != "inductor":
        return backend

    def inductor(graph: Any, inputs: Any, *, mode: Any = None, options: Any = None) -> Any:
        backend: Any = torch._TorchCompileInductorWrapper
        return backend(mode, options, dynamic=False)(graph, inputs)

    return inductor


def dynamo_backend() -> Any:
    """Return the backend for which Dynamo traces, without wrappers."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    backend: Any = InstructionTranslator.current_tx().output.compiler_fn
    while True:
        inner = getattr(backend, "_torchdynamo_orig_backend", None) or getattr(
            backend, "compiler_fn", None
        )
        if inner is None:
            return backend
        backend = inner
