"""The only module that touches private interfaces of PyTorch; seen in torch 2.9.0 and 2.9.1.

Names that start with an underscore move between releases. Each is wrapped here in a function that
says what it is for, so a new release of PyTorch is met in one file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

import torch
from torch._C._dynamo import eval_frame
from torch._prims_common import wrappers
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

__all__ = ["DispatchKeySet", "TreeSpec", "pytree", "wrappers"]

DispatchKeySet: TypeAlias = torch._C.DispatchKeySet
TreeSpec: TypeAlias = pytree.TreeSpec
DispatchState: TypeAlias = tuple[Any, Any]
"""The dispatch keys that a thread includes and excludes."""


# ---- operators ----


def schemas_of(name: str) -> Sequence[Any]:
    """The schemas of all overloads of `aten::name`; empty where there is no such operator."""
    return torch._C._jit_get_schemas_for_operator(name)


def operator_names() -> list[str]:
    """The names of all operators, `namespace::name`."""
    return sorted({schema.name for schema in torch._C._jit_get_all_schemas()})


def is_implicit_autograd(qualified: str) -> bool:
    """Whether an operator has a CompositeImplicitAutograd kernel, which decomposes it before a
    backend is asked."""
    key = "CompositeImplicitAutograd"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(qualified, key))


def kernel_origin(qualified: str, dispatch_key: str) -> str:
    """Where the kernel of an operator for a dispatch key was registered, as the dispatcher says."""
    table = torch._C._dispatch_dump_table(qualified).splitlines()
    return next((line for line in table if line.startswith(f"{dispatch_key}:")), "")


def python_kernel(overload: Any, dispatch_key: str) -> Callable[..., Any] | None:
    """The kernel in Python that an operator has for a key beside the one in C++."""
    key = torch._ops.resolve_key(overload, getattr(torch._C.DispatchKey, dispatch_key))
    return overload.py_kernels.get(key)  # type: ignore[no-any-return]


def decomposition_of(function: Any) -> Callable[..., Any] | None:
    """PyTorch's decomposition of an operator; None where it has none, or is no operator."""
    if isinstance(function, torch._ops.OpOverload) and function._can_decompose():
        return function.decompose
    return None


def forget_dispatch(overload: Any) -> None:
    """Let the Python dispatcher of torch.compile ask again which kernel an operator has."""
    overload._dispatch_cache.clear()


def remove_library(library: torch.library.Library) -> None:
    """Take the kernels of a library out of the dispatcher."""
    library._destroy()


# ---- dispatch keys and the state of a thread ----


def key_set(*names: str) -> DispatchKeySet:
    """The set of these dispatch keys."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, names[0]))
    for name in names[1:]:
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return keys


def parse_key(name: str) -> Any:
    """The dispatch key of a name, also of those that have no attribute on `DispatchKey`."""
    return torch._C._dispatch_key_parse(name)


def includes_key(key: Any) -> bool:
    """Whether this thread includes a dispatch key in every call."""
    return bool(torch._C._dispatch_tls_is_dispatch_key_included(key))


def in_python_dispatcher() -> bool:
    """Whether PyTorch's Python dispatcher chooses kernels, as under torch.compile."""
    return includes_key(torch._C.DispatchKey.PythonDispatcher)


def including_key(key: Any) -> AbstractContextManager[Any]:
    """A context in which this thread includes a dispatch key."""
    return torch._C._IncludeDispatchKeyGuard(key)


def excluding_key(key: Any) -> AbstractContextManager[Any]:
    """A context in which this thread excludes a dispatch key."""
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key))


def fresh_dispatch_state() -> DispatchState:
    """The state of the dispatcher as a user's call finds it: that of a new thread."""
    found: list[Any] = []

    def read() -> None:
        found.append(torch._C._dispatch_tls_local_include_set())
        found.append(torch._C._dispatch_tls_local_exclude_set())

    thread = threading.Thread(target=read, name="composites-dispatch-state")
    thread.start()
    thread.join()
    return found[0], found[1]


def dispatching_from(state: DispatchState) -> AbstractContextManager[Any]:
    """A context with another state of the dispatcher."""
    return torch._C._ForceDispatchKeyGuard(*state)


def without_modes() -> AbstractContextManager[Any]:
    """A context without the dispatch modes that are on, such as those of torch.compile."""
    return _disable_current_modes()


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


# ---- tensors and transforms ----


def stands_for_a_tensor(tensor: torch.Tensor) -> bool:
    """Whether a tensor stands for a real one while torch.compile traces."""
    return isinstance(tensor, FunctionalTensor | FakeTensor)


def base_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that this one is a view of; itself where it is none."""
    return tensor if tensor._base is None else tensor._base


def is_transformed() -> bool:
    """Whether torch.func or forward-mode differentiation is at work."""
    return (
        forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None
    )


# ---- torch.compile and torch.export ----


def keep_dynamo_out(kernel: Callable[..., Any]) -> None:
    """Let Dynamo run a kernel and what it calls, as it does with kernels in C++.

    Dynamo would otherwise trace their frames where an operator is called in a frame that it
    skipped.
    """
    skipped = eval_frame._FrameExecStrategy(
        eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP
    )
    eval_frame.set_code_exec_strategy(kernel.__code__, skipped)


@contextmanager
def exporting() -> Iterator[None]:
    """A context in which `torch.compiler.is_exporting()` is true."""
    before = torch.compiler._is_compiling_flag, torch.compiler._is_exporting_flag
    torch.compiler._is_compiling_flag = torch.compiler._is_exporting_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag, torch.compiler._is_exporting_flag = before


def is_metadata_check(target: Any) -> bool:
    """Whether a node of an exported graph only checks dtype, device and layout of a tensor."""
    return target is torch.ops.aten._assert_tensor_metadata.default
