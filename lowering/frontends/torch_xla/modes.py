"""torch_xla's process-wide switches during tracing."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch_xla

from composites.contexts import with_setting
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


def numbers_are_constants(value: bool) -> AbstractContextManager[None]:
    """A context in which torch_xla writes Python numbers into a graph as constants if `value`,
    otherwise as parameters."""
    read = _XLAC._get_xla_all_numbers_special_scalars
    return with_setting(read, _XLAC._set_xla_all_numbers_special_scalars, value)


@contextmanager
def tracing_mode(*, constants: bool = True) -> Iterator[None]:
    """A context in which tracing works in any mode of the user's program.

    In torch_xla's eager mode, each operator would run on placeholders, which aborts the process.
    torch_xla also makes Python numbers other than 0 and 1 parameters of the graph. With `constants`
    they become constants. Without it they are treated as in the user's graphs.
    """
    outermost = not is_guarded()
    with _EXCLUSIVE if outermost else nullcontext():
        if outermost:
            _OUTSIDE["constants"] = _XLAC._get_xla_all_numbers_special_scalars()
        with (
            numbers_are_constants(constants or _OUTSIDE["constants"]),
            with_setting(_XLAC._get_use_eager_mode, _XLAC._set_use_eager_mode, False),
        ):
            yield
