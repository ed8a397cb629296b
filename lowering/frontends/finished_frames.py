"""Removal of tensors from the tracebacks of errors in traced code.

Python's prompt, for example, keeps the last error, and would keep these tensors for the next
`torch_xla.sync()`, which ends the process if a tensor has no data. Tools that show variables in
tracebacks, as pytest does, would print them.
"""

import gc
import traceback
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any


def clear_frames(
    error: BaseException,
    is_traced: Callable[[Any], bool] = lambda value: False,
    outer: BaseException | None = None,
) -> None:
    """Drop the local variables of finished calls in the tracebacks of an error and of its causes.

    Args:
        is_traced: returns True for a value that holds a traced tensor. `nn.Module` calls a function
            that keeps the arguments in variables of an enclosing function; these are dropped too.
        outer: the error that was being handled when the code was called. It is not changed.
    """
    seen = {id(outer)}
    errors: list[BaseException | None] = [error]
    while errors:
        current = errors.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        traceback.clear_frames(current.__traceback__)
        for frame, _ in traceback.walk_tb(current.__traceback__):
            _clear_enclosing(frame, is_traced)
            _renewed = frame.f_locals  # before Python 3.13 a copy, which profilers make
        if isinstance(current, AttributeError) and is_traced(current.obj):
            current.obj = None
        errors += [current.__cause__, current.__context__]


_CLEARED_PACKAGES = ("torch", "torch_xla", "composites", "lowering")


def _clear_enclosing(frame: FrameType, is_traced: Callable[[Any], bool]) -> None:
    """Drop traced tensors in variables of enclosing functions that the function of a frame reads.

    Variables of the user's functions stay: the user may call these functions again.
    """
    for function in gc.get_referents(frame):
        if not isinstance(function, FunctionType):
            continue
        if str(function.__module__).partition(".")[0] not in _CLEARED_PACKAGES:
            continue
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # the cell is empty
                continue
            if is_traced(value):
                cell.cell_contents = None
