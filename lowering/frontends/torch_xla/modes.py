"""torch_xla's process-wide switches during tracing."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch_xla

from lowering.frontends.torch_xla.value_guard import is_guarded

_XLAC = torch_xla._XLAC

_EXCLUSIVE = threading.Lock()
"""Held by the outermost trace of the process. It covers that trace and the autograd threads that
work for it."""


_OUTSIDE = {"constants": False}
"""True if Python numbers were constants before the outermost trace."""


def beside_no_trace() -> AbstractContextManager[object]:
    """A context in which no other thread traces."""
    return _EXCLUSIVE


@contextmanager
def tracing_mode(*, constants: bool = True) -> Iterator[None]:
    """A context in which tracing works in any mode of the user's program.

    In torch_xla's eager mode, each operator would run on placeholders, which aborts the process.
    torch_xla also makes Python numbers other than 0 and 1 parameters of the graph. With `constants`
    they become constants. Without it they are treated as in the user's graphs.
    """
    outermost = not is_guarded()
    with _EXCLUSIVE if outermost else nullcontext():
        before = (_XLAC._get_xla_all_numbers_special_scalars(), _XLAC._get_use_eager_mode())
        if outermost:
            _OUTSIDE["constants"] = before[0]
        try:
            _XLAC._set_xla_all_numbers_special_scalars(constants or _OUTSIDE["constants"])
            _XLAC._set_use_eager_mode(False)
            yield
        finally:
            _XLAC._set_xla_all_numbers_special_scalars(before[0])
            _XLAC._set_use_eager_mode(before[1])
