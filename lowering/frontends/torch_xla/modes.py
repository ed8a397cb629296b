"""Tracing beside the rest of the process: torch_xla's switches, and `torch_xla.sync`."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any

import torch_xla

from composites.contexts import with_setting
from lowering.frontends.errors import ValueReadError
from lowering.frontends.protocols import GraphRunError
from lowering.frontends.torch_xla.value_guard import is_guarded

_XLAC = torch_xla._XLAC

_EXCLUSIVE = threading.Lock()
"""Held by the outermost trace of the process. It covers that trace and the autograd threads that
work for it."""


_OUTSIDE = {"constants": False}
"""True if Python numbers were constants before the outermost trace."""


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


class SyncError(GraphRunError, ValueReadError):
    """Traced code calls torch_xla.sync."""


_SYNCS: dict[str, AbstractContextManager[Any]] = {
    "_xla_step_marker": _EXCLUSIVE,
    "_xla_sync_live_tensors": _EXCLUSIVE,
    "_xla_sync_multi": nullcontext(),
}
"""Functions that compute tensors, and a context for each. The first two compute all live tensors of
the process."""


def guard_syncs() -> None:
    """Guard torch_xla's functions, for the life of the process. A second call changes nothing.

    Placeholders have no data, so computing them would end the process with a segmentation fault. In
    a trace, a sync is therefore an error. In another thread, it waits until the trace has ended.
    """
    for name, context in _SYNCS.items():
        original = getattr(_XLAC, name)
        if not hasattr(original, "__wrapped__"):
            setattr(_XLAC, name, _guarded(original, context))


def _guarded(original: Any, context: AbstractContextManager[Any]) -> Any:
    @wraps(original)
    def guarded(*arguments: Any, **keywords: Any) -> Any:
        if is_guarded():
            raise SyncError(
                "torch_xla.sync() runs the graph, but traced code has no values to run it on; call"
                " it outside"
            )
        with context:
            return original(*arguments, **keywords)

    return guarded
