"""Private interfaces of PyTorch, as found in torch 2.9 to 2.15. The only other module that uses
some is lowering/verification/opinfo.py, for the samples of PyTorch's tests.

Names that start with an underscore can change between releases. Each one is wrapped here in a
function that states its purpose, so that adapting to a new PyTorch release means changing one file.
"""

import operator
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from torch._C._dynamo import eval_frame
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._functorch import pyfunctorch
from torch._guards import TracingContext
from torch._guards import tracing as tracing_with
from torch._prims_common import wrappers
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
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
    """The schemas of all overloads of `aten::name`; empty if PyTorch has no such operator."""
    if name.startswith("quantized_decomposed::"):  # registered by the module of its operators
        import_module("torch.ao.quantization.fx._decomposed")
    return torch._C._jit_get_schemas_for_operator(name)


def operator_names() -> list[str]:
    """The names of all operators, `namespace::name`."""
    return sorted({schema.name for schema in torch._C._jit_get_all_schemas()})


def is_implicit_autograd(qualified: str) -> bool:
    """Return whether an operator has a CompositeImplicitAutograd kernel. PyTorch then decomposes it
    before the call reaches a backend."""
    key = "CompositeImplicitAutograd"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(qualified, key))


def takes_numbers(name: str) -> bool:
    """Return whether an operator, `namespace::name`, takes Python numbers in place of tensors."""
    return bool(torch._C._should_allow_numbers_as_tensors(name.partition("::")[2]))


def depends_on_values(qualified: str) -> bool:
    """Return whether the sizes of an operator's results depend on the values of its operands, as in
    `aten::nonzero`."""
    name, _, overload = qualified.removeprefix("aten::").partition(".")
    operator = getattr(getattr(torch.ops.aten, name), overload or "default")
    return torch.Tag.dynamic_output_shape in operator.tags


def kernel_origin(qualified: str, dispatch_key: str) -> str:
    """The dispatcher's line that says where an operator's kernel for a key was registered."""
    table = torch._C._dispatch_dump_table(qualified).splitlines()
    return next((line for line in table if line.startswith(f"{dispatch_key}:")), "")


def python_kernel(overload: Any, dispatch_key: str) -> Callable[..., Any] | None:
    """The Python kernel that an operator has for a dispatch key in addition to the C++ kernel, if
    any."""
    key = torch._ops.resolve_key(overload, getattr(torch._C.DispatchKey, dispatch_key))
    return overload.py_kernels.get(key)  # type: ignore[no-any-return]


def decomposition_of(function: Any) -> Callable[..., Any] | None:
    """PyTorch's decomposition of an operator; None if `function` has none or is not an operator."""
    if isinstance(function, torch._ops.OpOverload) and function._can_decompose():
        return function.decompose
    return None


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """PyTorch's decompositions below autograd, of the overloads that write to no argument."""
    return {
        overload: function
        for overload, function in decomposition_table.items()
        if isinstance(overload, torch._ops.OpOverload)
        and overload.namespace == "aten"
        and not overload._schema.is_mutable
    }


@cache
def all_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """`decompositions`, with those to core aten operators where PyTorch has two of one."""
    return {**decompositions(), **core_aten_decompositions()}


def is_operator(target: Any) -> bool:
    """Return whether the target of a graph's node is an overload of an operator."""
    return isinstance(target, torch._ops.OpOverload)


def takes_functions(target: Any) -> bool:
    """Return whether the target of a graph's node is an operator on functions, such as `cond`."""
    return isinstance(target, torch._ops.HigherOrderOperator)


def is_compiled(module: Any) -> bool:
    """Return whether a module is the wrapper that torch.compile returns."""
    return isinstance(module, torch.nn.Module) and type(module).__name__ == "OptimizedModule"


def tags_of(target: Any) -> Sequence[Any]:
    """The tags of the operator that a node of a graph calls."""
    return target.tags if is_operator(target) else ()


def takes_device(target: Any) -> bool:
    """Return whether the target of a graph's node is an operator that takes a device."""
    if isinstance(target, torch._ops.OpOverloadPacket):
        target = getattr(target, target.overloads()[0])  # type: ignore[no-untyped-call]
    return is_operator(target) and any(a.name == "device" for a in target._schema.arguments)


def add_higher_order_kernel(
    name: str, dispatch_key: str, kernel: Callable[..., Any], takes: Callable[[Tensor], bool]
) -> None:
    """Register the kernel that an operator on functions, such as `torch.ops.higher_order.cond`, has
    for calls with a tensor that `takes` accepts, unless it returns `NotImplemented`. It stays
    for the life of the process."""
    operator = getattr(torch.ops.higher_order, name)
    key = getattr(torch._C.DispatchKey, dispatch_key)
    stock = _higher_order_kernel(operator, key)
    operator.py_kernels.pop(key, None)

    def chosen(*arguments: Any, **keywords: Any) -> Any:
        leaves = pytree.tree_leaves((arguments, keywords))
        is_taken = any(isinstance(leaf, Tensor) and takes(leaf) for leaf in leaves)
        results = kernel(*arguments, **keywords) if is_taken else NotImplemented
        return stock(*arguments, **keywords) if results is NotImplemented else results

    operator.py_impl(key)(chosen)
    operator._dispatch_cache.clear()


def _higher_order_kernel(operator: Any, key: Any) -> Callable[..., Any]:
    """The kernel of PyTorch for a dispatch key. Without one, the next key's kernel is called."""
    try:
        kernel: Callable[..., Any] = operator.py_kernels[torch._ops.resolve_key(operator, key)]
    except (NotImplementedError, KeyError):
        return partial(_call_below, operator, torch._C.DispatchKeySet(key))
    return kernel


def _call_below(operator: Any, keys: Any, *arguments: Any, **keywords: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(keys):
        return operator(*arguments, **keywords)


def on_positions(
    function: Callable[..., Tensor],
    places: Sequence[Tensor],
    buffers: Sequence[Any],
    scores: Tensor | None = None,
) -> Tensor:
    """A function that `flex_attention` takes, of all positions.

    Args:
        places: the sequences, heads, queries and keys, as four vectors.
        scores: its first argument, of all positions, if it changes scores.
        buffers: its last arguments.
    """
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    first = () if scores is None else (scores,)
    every = _vmap_for_bhqkv(function, prefix=(0,) * len(first), suffix=(None,) * len(buffers))
    with TransformGetItemToIndex():
        values: Tensor = every(*first, *places, *buffers)
    return values


def offer_flex_attention(owns: Callable[[Tensor], bool]) -> None:
    """Let `flex_attention` take tensors that `owns` accepts. PyTorch names the devices that it
    knows, and has no gradient on the CPU."""
    from torch.nn.attention import flex_attention

    stock = flex_attention._validate_device

    def validate(query: Tensor, key: Tensor, value: Tensor) -> None:
        if not owns(query):
            stock(query, key, value)

    flex_attention._validate_device = validate


def block_masks_on(device: torch.device) -> AbstractContextManager[None]:
    """A context in which the block masks of `flex_attention` are on a device."""
    from torch.nn.attention.flex_attention import BlockMask

    name = "kv_num_blocks"  # the tensor whose device is compared

    def read(mask: Any) -> Tensor:
        blocks: Tensor = vars(mask)[name]
        return blocks.to(device)

    def write(mask: Any, blocks: Tensor) -> None:
        vars(mask)[name] = blocks

    return with_attributes(BlockMask, **{name: property(read, write)})


def forget_dispatch(overload: Any) -> None:
    """Clear the kernels that torch.compile's Python dispatcher has cached for an operator."""
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
    """A context in which `torch.random.fork_rng` and `torch.utils.checkpoint` keep the state of a
    device's random numbers, of which `torch` has no module. They ask such a module (torch 2.15.0).

    `torch.get_device_module` keeps what it returned first, so the module is not asked for there.
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
    """A context in which `torch.autocast` takes a type of device for which PyTorch has none
    (torch 2.15.0).

    Args:
        state: the type of device whose state of autocast is read and written instead.
        turned: called with the new state, when autocast is turned on or off.
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
    """A context in which optimizers and `clip_grad_norm_` call operators of lists (`_foreach_`) on
    a type of device, as on accelerators (torch 2.15.0)."""
    names = [f"_get_{kind}_kernels_supported_devices" for kind in ("foreach", "fused")]
    functions: dict[str, Any] = {
        name: partial(_with_device, getattr(_foreach_utils, name), device_type) for name in names
    }
    with with_attributes(_foreach_utils, **functions), with_attributes(optimizer, **functions):
        yield


def _with_device(devices: Callable[[], list[str]], device_type: str) -> list[str]:
    return [*devices(), device_type]


def made_on_cpu() -> AbstractContextManager[None]:
    """A context in which `torch.tensor(values, device=…)` makes a tensor on the CPU first, and then
    copies it in a call that dispatch modes see."""
    api = torch._C
    return with_setting(api._only_lift_cpu_tensors, api._set_only_lift_cpu_tensors, True)


def convolutions_of_cpu() -> AbstractContextManager[None]:
    """A context in which results of convolutions of fake tensors lie in memory as on the CPU."""
    api = torch._C

    def on_cpu(x: Tensor) -> Tensor:
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cpu")

    def of_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            moved = pytree.tree_map_only(Tensor, on_cpu, (arguments, keywords))
            return function(*moved[0], **moved[1])

        return call

    return with_attributes(
        api,
        _select_conv_backend=of_cpu(api._select_conv_backend),
        _conv_determine_backend_memory_format=of_cpu(api._conv_determine_backend_memory_format),
    )


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
    """A tensor of a class that has `__torch_dispatch__`, with the sizes, strides and dtype of
    another one, and without memory."""
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
    """The set of these dispatch keys."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, names[0]))
    for name in names[1:]:
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return keys


def parse_key(name: str) -> Any:
    """The dispatch key with this name, including keys that are not attributes of `DispatchKey`."""
    return torch._C._dispatch_key_parse(name)


def keys_after(key: Any) -> Any:
    """The dispatch keys that come after a key, as a set."""
    return torch._C._dispatch_keyset_full_after(key)


def operators_with_kernel(key: str) -> frozenset[str]:
    """The operators of aten that have a kernel at a dispatch key, as `name.overload`."""
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
    """A context in which a key that this thread includes is not excluded. In functions that
    `calls_through` calls, all keys above it are excluded."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    return torch._C._ForceDispatchKeyGuard(included, excluded.remove(key))


def fresh_dispatch_state() -> DispatchState:
    """The dispatcher state of a new thread, which is the state in which a user's call starts."""
    sets: list[Any] = []

    def read() -> None:
        sets.append(torch._C._dispatch_tls_local_include_set())
        sets.append(torch._C._dispatch_tls_local_exclude_set())

    thread = threading.Thread(target=read, name="composites-dispatch-state")
    thread.start()
    thread.join()
    return sets[0], sets[1]


def dispatching_from(state: DispatchState) -> AbstractContextManager[Any]:
    """A context that uses the given dispatcher state."""
    return torch._C._ForceDispatchKeyGuard(*state)


def without_modes() -> AbstractContextManager[Any]:
    """A context without the active dispatch modes, such as those of torch.compile."""
    return _disable_current_modes()


def _holds_tensors(type_: type) -> bool:
    """Return whether tensors of a class hold others, and its `__torch_dispatch__` computes with
    these. DTensor only calls the operator again."""
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
            with self, asking_key(torch._C.DispatchKey.Functionalize), writing_to_holders():
                return self._inside(dispatch, func, args, kwargs or {})
        return self._around(func, args, kwargs or {})


_IN_PLACE = {name for name in dir(operator) if re.fullmatch(r"__i(?!nv|ndex)\w+__", name)}
"""`__iadd__` and the like."""


class _WritingToHolders(TorchFunctionMode):
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


def writing_to_holders() -> AbstractContextManager[Any]:
    """A context in which operators may write to tensors that hold others, within `calls_through`.
    Functionalization refuses them, so the class of such a tensor gets the operands as they are."""
    return _WritingToHolders()


def without_torch_function() -> AbstractContextManager[Any]:
    """A context in which `__torch_function__` of tensor subclasses is not called."""
    disabled: Any = torch._C.DisableTorchFunctionSubclass
    return disabled()  # type: ignore[no-any-return]


def _dispatched(dispatch: Callable[..., Any], func: Any, arguments: Any, keywords: Any) -> Any:
    return dispatch(arguments, keywords)


def calls_through(
    around: Callable[..., Any], inside: Callable[..., Any] = _dispatched
) -> AbstractContextManager[Any]:
    """A context in which `around(overload, arguments, keywords)` makes each call that comes out of
    autograd and functionalization, in this thread and those that work for it.

    Args:
        inside: `inside(dispatch, overload, arguments, keywords)` makes a call with a tensor that
            holds others, by `dispatch(arguments, keywords)`; `around` then makes the calls with the
            inner ones.
    """
    return _Watching(around, inside)


def dispatch_mode() -> str | None:
    """The name of a dispatch mode that is on in this thread, such as FlopCounterMode; None if none
    is.

    Modes in which PyTorch and this project trace do not count.
    """
    if not torch._C._len_torch_dispatch_stack():
        return None
    for mode in _get_current_dispatch_mode_stack():  # type: ignore[no-untyped-call]
        if type(mode) is not _Watching and not mode.is_infra_mode():
            return type(mode).__name__.removeprefix("_")  # its class may be private
    return None


def sequence_number() -> int:
    """The number of the next node of autograd that this thread makes."""
    return torch._C._autograd._get_sequence_nr()


def running_node() -> int | None:
    """The number of the node of autograd whose backward this thread runs; None outside a backward.

    Nodes that add to `.grad` have no number of their own, but a very large one.
    """
    node: Any = torch._C._current_autograd_node()
    return None if node is None else int(node._sequence_nr())


def running_formula() -> str:
    """The name of the node of autograd whose backward this thread runs, such as
    `LinalgSvdBackward0`; empty outside a backward."""
    node: Any = torch._C._current_autograd_node()
    return "" if node is None else str(node.name())


def functions_applied_to(
    replacement: Callable[[Tensor], Tensor],
) -> AbstractContextManager[None]:
    """A context in which every `torch.autograd.Function` is applied to other tensors in the places
    of some. `TorchFunctionMode` does not see these calls."""
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


# ---- what autograd recorded ----

_SAME_ROWS = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "AliasBackward0")
"""Nodes whose results have the elements of their operand in the same order."""
_CAST = "ToCopyBackward0"


def operands_of_product(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The operands of the `aten::mm` that made a matrix, which may have been viewed, and cast once.

    They are those that autograd saved. Nothing is kept alive for this, and an operand that was
    written to since is an error.

    Raises:
        LookupError: it is not such a result, or not only that; the message says why.
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
    """`matrix.t()`, or the leaf whose transpose the matrix is.

    A backward then returns the leaf's gradient itself. Through two transposes it would be a view of
    a view, and torch_xla would compute and keep both views as long as it is alive.
    """
    node: Any = matrix.grad_fn
    if node is not None and node.name() == "TBackward0":
        leaf = getattr(node.next_functions[0][0], "variable", None)
        # `leaf.data = …` gives a leaf other data, which the matrix does not see.
        if isinstance(leaf, torch.Tensor) and torch._C._is_alias_of(matrix, leaf):  # type: ignore[attr-defined]
            return leaf
    return matrix.t()


# ---- tensors and transforms ----


def stands_for_a_tensor(tensor: torch.Tensor) -> bool:
    """Return whether a tensor represents a real one while torch.compile traces."""
    return isinstance(tensor, FunctionalTensor | FakeTensor)


def is_not_persistent(module: torch.nn.Module, buffer: str) -> bool:
    """Return whether the `state_dict` of a module leaves out the buffer of this name."""
    owner, _, leaf = buffer.rpartition(".")
    return leaf in module.get_submodule(owner)._non_persistent_buffers_set


def functional(tensor: torch.Tensor) -> torch.Tensor:
    """A backend's tensor, as functionalization sees it."""
    return torch._to_functional_tensor(tensor)


def functionalized(tensor: torch.Tensor) -> torch.Tensor:
    """The backend's tensor of one that functionalization sees, with all that was written to it."""
    if not torch._is_functional_tensor(tensor):
        return tensor
    torch._functionalize_sync(tensor)
    return torch._from_functional_tensor(tensor)


def without_writes(tensor: torch.Tensor) -> torch.Tensor:
    """The backend's tensor of one that functionalization sees, without what was written to a tensor
    that it is a view of. Nothing is computed."""
    if not torch._is_functional_tensor(tensor):
        return tensor
    return torch._from_functional_tensor(tensor)


def base_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that this one is a view of, or the tensor itself if it is not a view."""
    return tensor if tensor._base is None else tensor._base


def was_written(tensor: torch.Tensor) -> bool:
    """Return whether an operation in place has written to a tensor since it was made."""
    return not tensor.is_inference() and tensor._version > 0


def version_kept(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """A context in which writing to a tensor does not raise the version that autograd checks."""
    return grad_mode._unsafe_preserve_version_counter(tensor)


def share_memory(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether writing to one of the tensors may change another one. Dynamo, which cannot
    trace this, checks it by itself."""
    if torch.compiler.is_compiling():
        return False
    return len({tensor.untyped_storage()._cdata for tensor in tensors}) < len(tensors)


def assign(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """`tensor.copy_(value)`, after which the tensor of a lazy backend is as new as after any other
    operation in place.

    `copy_` on torch_xla (2.9) keeps the number of the tensor, by which the results of a graph are
    ordered. XLA gives the buffers of arguments to results in this order, so the buffers of
    parameters and of an optimizer's state would change places, which takes copies.
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
    """Make a tensor of a lazy backend as new as `assign` does, with the value that it has.

    It is no longer a view of its base: torch_xla computes and keeps a base as long as there is a
    view of it. Nobody can see this, as tensors that share memory with others stay as they are.
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
    here = 1  # `storage` itself
    return bool(torch._C._storage_Use_Count(storage._cdata) == here + 1)


def assign_all(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """`assign` the results of an operator to those of its operands that they replace.

    Args:
        tensors: in the order of the operands, so that each result takes the place of its operand in
            memory: torch_xla numbers the arguments of a graph from the last operand to the first.
            No two of them share memory.
    """
    for tensor, value in zip(reversed(tensors), reversed(values), strict=True):
        assign(tensor, value)


def printing(text_of: Callable[[Any], str | None]) -> AbstractContextManager[None]:
    """A context in which a tensor prints as `text_of` says; as always where that is None."""
    original = torch._tensor_str._str

    def text(self: Any, *, tensor_contents: Any = None) -> str:
        shown = text_of(self)
        if shown is not None:
            return shown
        return str(original(self, tensor_contents=tensor_contents))  # type: ignore[no-untyped-call]

    return with_attributes(torch._tensor_str, _str=text)


def is_transformed() -> bool:
    """Return whether a torch.func transform or forward-mode differentiation is active."""
    return (
        forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None
    )


def is_batched(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a batch of `torch.autograd.grad(…, is_grads_batched=True)`.

    `is_transformed` does not see this older form of vmap.
    """
    return torch._C._functorch.is_legacy_batchedtensor(tensor)


@contextmanager
def untransformed() -> Iterator[None]:
    """A context outside all transforms of torch.func and batched gradients.

    Tensors that no transform has wrapped can require gradients there, and random numbers can be
    drawn, which vmap refuses.
    """
    with (
        pyfunctorch.temporarily_clear_interpreter_stack(),
        excluding_key(parse_key("VmapMode")),
    ):
        yield


# ---- torch.compile and torch.export ----


def keep_dynamo_out(kernel: Callable[..., Any]) -> None:
    """Make Dynamo run a kernel and its callees without tracing them, as it does for C++ kernels.

    Otherwise Dynamo would trace their frames if an operator is called from a frame that it skipped.
    """
    skipped = eval_frame._FrameExecStrategy(
        eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP
    )
    eval_frame.set_code_exec_strategy(kernel.__code__, skipped)


@contextmanager
def exporting() -> Iterator[None]:
    """A context in which `torch.compiler.is_exporting()` is true, and in which functions of
    `torch.compiler.nested_compile_region` are called as they are, where PyTorch starts Dynamo."""
    regions = import_module("torch._higher_order_ops.invoke_subgraph")
    with (
        with_attributes(torch.compiler, _is_compiling_flag=True, _is_exporting_flag=True),
        with_attributes(regions, invoke_subgraph_placeholder=lambda f, *a, **named: f(*a, **named)),
    ):
        yield


@dataclass(frozen=True, slots=True)
class SizeGuard:
    """A condition that symbolic sizes have to meet."""

    text: str
    place: str
    """`file:line: ` of the calling code of the user; empty if there is none."""


class SizeSymbols:
    """Symbols in place of sizes, and the guards that PyTorch has recorded about them."""

    def __init__(self) -> None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        guards: list[SizeGuard] = []

        class Symbols(ShapeEnv):
            def _log_guard(self, prefix: str, g: Any, forcing_spec: bool) -> None:
                # Before it broadcasts, PyTorch asks whether a size is 0 or 1.
                if not (g.is_Relational and g.rel_op == "!=" and g.rhs in (0, 1)):
                    place = call_site(sys._getframe())
                    guards.append(SizeGuard(_python_text(g), f"{place}: " if place else ""))
                super()._log_guard(prefix, g, forcing_spec)

            def evaluate_expr(self, orig_expr: Any, *arguments: Any, **keywords: Any) -> Any:
                if _FOR_ALL_SIZES and self._maybe_evaluate_static(orig_expr) is None:
                    raise UnsupportedCallError("it depends on a size that varies")
                return super().evaluate_expr(orig_expr, *arguments, **keywords)

        self.guards: Sequence[SizeGuard] = guards
        self._env = Symbols()

    def add(self, name: str, example: int, least: int, largest: int | None) -> torch.SymInt:
        """A new size.

        Args:
            example: PyTorch decides with this what it cannot decide for all sizes.
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
    """A context in which PyTorch decides nothing with an example size: a decision about a symbolic
    size is an UnsupportedCallError."""
    return with_last(_FOR_ALL_SIZES, True)


def _python_text(expression: Any) -> str:
    from torch.utils._sympy.printers import PythonPrinter

    return str(PythonPrinter().doprint(expression))


def text_of_size(size: torch.SymInt | torch.SymFloat) -> str:
    """A size as an expression of Python."""
    return _python_text(size.node.expr)


def is_key(value: Any) -> bool:
    """Return whether a value is a symbolic size that can be a key; see `hashable_sizes`."""
    if not isinstance(value, torch.SymInt | torch.SymFloat):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


def example_of(size: torch.SymInt) -> int:
    """The size that PyTorch decides with."""
    return int(size.node.hint)


def bounds_of(size: torch.SymInt) -> tuple[int, int | None]:
    """The smallest and the largest size that it can be; None if there is no largest one."""
    bounds = size.node.shape_env.bound_sympy(size.node.expr)
    return int(bounds.lower), int(bounds.upper) if bounds.upper.is_Integer else None


def python_kernels() -> AbstractContextManager[Any]:
    """A context in which operators with kernels in Python use these. Kernels in C++ are often for
    sizes that are numbers."""
    from torch._dispatch.python import enable_python_dispatcher

    return enable_python_dispatcher()


_DECOMPOSED_EARLY = ("dropout", "gru", "lstm", "native_batch_norm")
"""Operators that `python_kernels` decompose before a kernel of a backend is called."""
_UPSAMPLING = ("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d")
"""More such operators. Where sizes vary they stay decomposed: their kernels in C++ take numbers."""


@contextmanager
def decomposed_late(names: Sequence[str] = _DECOMPOSED_EARLY) -> Iterator[None]:
    """A context in which `python_kernels` leave some operators to a kernel of the backend."""
    all_decompositions()  # without their kernels, PyTorch takes these operators for others
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
    """A context in which symbolic sizes can be keys: equal ones are those of equal expressions."""

    def hashed(size: Any) -> int:
        return hash((id(size.node.shape_env), size.node.expr))

    with (
        with_attributes(torch.SymInt, __hash__=hashed),
        with_attributes(torch.SymFloat, __hash__=hashed),
    ):
        yield


def resize_out(out: Tensor, shape: torch.Size) -> None:
    """Give a tensor that was passed as `out=` the shape of the result, with PyTorch's warning if it
    has another one and elements."""
    wrappers._maybe_resize_out(out, shape)


def is_metadata_check(target: Any) -> bool:
    """Return whether a node of an exported graph only checks dtype, device and layout."""
    return target is torch.ops.aten._assert_tensor_metadata.default


# ---- a backend of torch.compile ----


TENSOR_OF_TENSORS = torch._refs.tensor
"""Dynamo writes it for `torch.tensor` of a list that contains tensors or sizes."""


def device_constructors() -> frozenset[Any]:
    """The functions that make tensors and take `device`."""
    return frozenset({*_device_constructors(), TENSOR_OF_TENSORS})


def enters_autocast(target: Any) -> bool:
    """Return whether a call in a graph of Dynamo enters autocast of a type of device."""
    return target is autocast_mode._enter_autocast


def below_autograd() -> AbstractContextManager[Any]:
    """A context in which calls start below autograd."""
    return torch._C._AutoDispatchBelowAutograd()


tensor_from_dlpack: Callable[[Any], Tensor] = torch._C._from_dlpack
"""A tensor that shares the memory of a DLPack capsule. `torch.utils.dlpack.from_dlpack` does the
same, after looking for other objects (2.14)."""


def version_of(tensor: Tensor) -> int:
    """The number of writes to a tensor that autograd has seen; 0 for tensors of inference mode."""
    return 0 if tensor.is_inference() else int(tensor._version)


def storage_key(tensor: Tensor) -> int:
    """A number that tensors which share memory have in common."""
    return int(tensor.untyped_storage()._cdata)


def refuse_access(tensor: Tensor, message: str) -> None:
    """Let PyTorch raise an error with this message for what reads or writes a tensor's storage.
    Arrays of NumPy that share its memory still can."""
    torch._C._set_storage_data_ptr_access_error_msg(storage_key(tensor), message)


def fakes(values: Sequence[Any], device: torch.device) -> list[Any]:
    """Fake tensors of the trace of torch.compile that is running, on another device, in the places
    of tensors. Fakes of tensors that share memory share it too."""
    context = TracingContext.try_get()
    assert context is not None
    mode = context.fake_mode
    assert mode is not None
    storages: dict[int, torch.UntypedStorage] = {}
    inner = (each for value in values for _, each in inner_tensors("", value))
    sharing = Counter(storage_key(each) for each in inner if isinstance(each, Tensor))

    def fake(name: str, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        with without_modes(), torch.no_grad():
            own = value.untyped_storage()
            empty = torch.empty(own.nbytes(), dtype=torch.uint8, device="meta")
            storage = storages.setdefault(storage_key(value), empty.untyped_storage())
            described = torch.empty(0, dtype=value.dtype, device="meta")
            size, stride = map(int, value.shape), map(int, value.stride())
            described.set_(storage, int(value.storage_offset()), tuple(size), tuple(stride))
            made: Any = FakeTensor(mode, described, device)
            made.requires_grad_(value.requires_grad)
        # AOTAutograd hides writes to leaves from autograd. Views of one base would differ in bases.
        if not value.is_leaf and sharing[storage_key(value)] == 1:
            with without_modes(), torch.set_grad_enabled(True):
                made = made.view_as(made)
        if isinstance(value, torch.nn.Parameter):
            made._is_param = True
        return made

    return [with_inner_tensors("", value, fake) for value in values]


PRODUCTS_OF_LISTS = frozenset(
    [torch._foreach_mul, torch._foreach_mul_, torch._foreach_div, torch._foreach_div_]
)
"""Functions of lists of tensors that take one number for all, or a tensor in its place."""


@contextmanager
def tracing() -> Iterator[None]:
    """A context in which graphs are compiled outside of a trace of torch.compile, also where
    PyTorch 2.10 has left the trace's fake mode active. No other thread traces meanwhile:
    AOTAutograd replaces methods of modules in the whole process."""
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
    """AOTAutograd: the forward and the backward of a graph of Dynamo, each compiled.

    A forward is run again in the backward only for the user's checkpointing, and for views of
    inputs.

    Args:
        compile_graph: takes a graph, fake tensors, and `returned`: of a forward with a backward,
            how many results are returned; the following ones are saved for the backward. Except
            for a backward, it takes `written`: the positions of the inputs that are written to,
            which the graph returns first.
        runs_here: True for programs of this package. Their backward may draw random numbers of the
            forward a second time, by operators that keep the state of the generator. They make the
            tokens of effects, which are inputs and results otherwise. Their backward takes None for
            a result that has no gradient, where autograd would make zeros.
        sources: Dynamo's source of each input, and of each tensor that a tensor subclass holds. The
            inputs of the compiled graphs have theirs under `SOURCE` in `meta`.
    """
    from torch._functorch import config
    from torch._functorch.aot_autograd import aot_module_simplified  # takes a second to import
    from torch._functorch.partitioners import default_partition

    returned: list[int] = []
    names = list(sources)

    def partition(joint: torch.fx.GraphModule, *arguments: Any, **keywords: Any) -> Any:
        _view_inputs_again(joint.graph)
        results = joint.graph.output_node().meta["desc"]
        changed = {getattr(result, "mutated_input", None) for result in results} - {None}
        for node in joint.graph.nodes:
            # The backward has other values of inputs that the graph writes to, as batch norm does.
            reads_changed = any(each.meta.get("desc") in changed for each in node.all_input_nodes)
            draws = torch.Tag.nondeterministic_seeded in tags_of(node.target)
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

    # A backward that cannot be compiled is to be known before the forward runs.
    settings = {"force_non_lazy_backward_lowering": True, "unlift_effect_tokens": runs_here}
    with (
        config.patch(settings),
        # Other operators keep their decompositions: that of batch norm returns its averages.
        decomposed_late(_UPSAMPLING),
        _no_donated_buffers(),
        # Overload packets and torchao 0.18 print tensors, which would be copied to the CPU.
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


def _leave_gradients_out(results: Sequence[Any]) -> None:
    """Let autograd pass None to the backward of a graph of AOTAutograd for results that have no
    gradient. AOTAutograd cannot take apart None for a tensor subclass, and compiled autograd traces
    operators with it."""
    from torch._dynamo import compiled_autograd, config

    tensors = [result for result in results if isinstance(result, Tensor)]
    is_plain = all(type(tensor) is Tensor for tensor in tensors)
    # If the setting is on, a backward that is called later may be traced.
    is_traced = compiled_autograd.compiled_autograd_enabled or config.compiled_autograd
    if not is_plain or is_traced:
        return
    for tensor in tensors:
        node: Any = tensor.grad_fn
        if hasattr(getattr(node, "_forward_cls", None), "_aot_id"):  # all results have this one
            node.set_materialize_grads(False)
            return


def not_traced(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """A function of a list, as AOTAutograd calls it, that Dynamo does not trace.

    PyTorch 2.10 copies attributes from it to what AOTAutograd makes of it, and would then call the
    attribute that `torch.compiler.disable` has added, which is the function itself.
    """
    run: Any = torch.compiler.disable(function)
    vars(run).pop("_torchdynamo_orig_callable", None)
    run._boxed_call = True
    return cast(Callable[[list[Any]], Any], run)


def input_sources(graph: torch.fx.Graph) -> list[str]:
    """The expressions by which Dynamo has read the inputs of its graph, such as `L['x']`; empty for
    inputs without one."""
    return [_source(node) for node in graph.find_nodes(op="placeholder")]


def _source(node: torch.fx.Node) -> str:
    name = getattr(getattr(node.meta.get("grapharg"), "source", None), "name", "")
    return str(name() if callable(name) else name)  # a method in PyTorch 2.10


def _note_sources(traced: torch.fx.Graph, sources: list[str], *, is_backward: bool) -> None:
    """Note the sources of tensors on the inputs of a graph that AOTAutograd has made, which are
    called `primals_1` or, without a backward, `arg0_1` (PyTorch 2.14). If AOTAutograd has other
    inputs than Dynamo, such as one for tensors that share memory, sources are cleared."""
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
"""The key under which inputs of AOTAutograd's graphs note Dynamo's source."""


def is_token(operator: Any) -> bool:
    """Return whether an operator makes or ends a token of `with_effects`, which keeps calls in
    order (PyTorch 2.14)."""
    return operator in (torch.ops.prims._make_token.default, torch.ops.prims._sink_tokens.default)


def is_check_of_errors(operator: Any) -> bool:
    """Return whether an operator raises an error for the state that LAPACK has returned."""
    return operator is torch.ops.aten._linalg_check_errors.default


def restarts_trace(error: Exception) -> bool:
    """Return whether an error lets Dynamo trace again, as for a scalar of f64."""
    from torch._dynamo.exc import RestartAnalysis

    return isinstance(error, RestartAnalysis)


def _no_donated_buffers() -> AbstractContextManager[None]:
    """A context in which a backward does not reuse the memory of saved tensors, so that it may run
    again. PyTorch 2.15 refuses a second run if there are such tensors, even if its option
    `donated_buffer` is off while it compiles."""
    from torch._functorch._aot_autograd import graph_compile

    return with_attributes(graph_compile, collect_bw_donated_buffer_idxs=lambda *_: [])


def _view_inputs_again(joint: torch.fx.Graph) -> None:
    """Let the backward in a graph of both directions make its own views of inputs, such as those of
    transposed weights, so that autograd saves the inputs."""
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
    """Return whether the trace of torch.compile that is running is one of `fullgraph=True`."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    return bool(InstructionTranslator.current_tx().one_graph)


def backend_of_name(name: str) -> Any:
    """A backend of Dynamo.

    Raises:
        LookupError: no package has announced one of this name.
    """
    from torch._dynamo import list_backends, lookup_backend
    from torch._dynamo.exc import InvalidBackend

    try:
        backend = lookup_backend(name)
    except InvalidBackend:
        known = ", ".join(list_backends())
        raise LookupError(f"there is no backend {name!r}; there are: {known}") from None
    if name != "inductor":
        return backend

    def inductor(graph: Any, inputs: Any, *, mode: Any = None, options: Any = None) -> Any:
        backend: Any = torch._TorchCompileInductorWrapper
        return backend(mode, options, dynamic=False)(graph, inputs)

    return inductor


def dynamo_backend() -> Any:
    """The backend for which Dynamo traces, as it was registered."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    backend: Any = InstructionTranslator.current_tx().output.compiler_fn
    while True:
        inner = getattr(backend, "_torchdynamo_orig_backend", None) or getattr(
            backend, "compiler_fn", None
        )
        if inner is None:
            return backend
        backend = inner
