"""Dynamic sizes of torch_xla: `_xla_mark_dynamic`, which its own export of a program calls.

torch_xla's lowerings follow dynamic sizes. A computation has fixed shapes, and the conversion of a
graph that calls a computation with such a tensor fails. torch_xla does not tell which tensors have
dynamic sizes: a tensor that is computed from a marked tensor has the shape of the example.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch_xla

_XLAC = torch_xla._XLAC


def before_each(call: Callable[[], None]) -> None:
    """Call a function before a size of a tensor becomes dynamic."""
    original = _XLAC._xla_mark_dynamic

    @wraps(original)
    def marked(*arguments: Any, **keywords: Any) -> Any:
        call()
        return original(*arguments, **keywords)

    _XLAC._xla_mark_dynamic = marked
