"""`torch_xla.sync` during a trace, for which torch_xla would crash.

torch_xla.sync computes all live tensors of the process. Placeholders have no data, so the process
would end with a segmentation fault. In a trace, a sync is therefore an error. In another thread, it
waits until the trace has ended.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

import torch_xla

from lowering.frontends.errors import ValueReadError
from lowering.frontends.protocols import GraphRunError
from lowering.frontends.torch_xla.modes import beside_no_trace
from lowering.frontends.torch_xla.value_guard import is_guarded

_XLAC = torch_xla._XLAC

_SYNCS_OF_ALL = ("_xla_step_marker", "_xla_sync_live_tensors")
_SYNCS_OF_LISTED = ("_xla_sync_multi",)


class SyncError(GraphRunError, ValueReadError):
    """Traced code calls torch_xla.sync."""


def guard_syncs() -> None:
    """Guard torch_xla's functions, for the life of the process. A second call changes nothing."""
    for name in _SYNCS_OF_ALL:
        _guard(name, beside_no_trace)
    for name in _SYNCS_OF_LISTED:
        _guard(name, nullcontext)


def _guard(name: str, context: Callable[[], AbstractContextManager[Any]]) -> None:
    original = getattr(_XLAC, name)
    if hasattr(original, "__wrapped__"):
        return

    @wraps(original)
    def guarded(*arguments: Any, **keywords: Any) -> Any:
        if is_guarded():
            raise SyncError(
                "torch_xla.sync() runs the graph, but traced code has no values to run it on; call"
                " it outside"
            )
        with context():
            return original(*arguments, **keywords)

    setattr(_XLAC, name, guarded)
