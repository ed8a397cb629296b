"""Lines of a user's code where an error was raised or a call was made.

A user's code is all code outside of torch, JAX, Python's standard library and this project.
"""

import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType

_FRAMEWORKS = ("torch", "torch_xla", "jax", "flax", "optax", "composites", "lowering")

# Files of generated hooks, and of code of torch and importlib. A user's file may be `<stdin>`.
_GENERATED = ("lowering.generated.", "<conditions of ", "<frozen ", "<eval_with_key>")

_STANDARD_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
_INSTALLED = (f"{_STANDARD_LIBRARY}site-packages", f"{_STANDARD_LIBRARY}dist-packages")


def error_line(error: BaseException) -> str:
    """Return `file:line: ` of the innermost line of a user's code in the traceback of an error;
    empty if there is none."""
    passed = list(traceback.walk_tb(error.__traceback__))
    line = next(_lines(reversed(passed)), None)
    return "" if line is None else f"{line}: "


def described(error: BaseException) -> str:
    """Describe an error with its location: `ops.py:3: ValueError: no such size`."""
    return f"{error_line(error)}{type(error).__name__}: {error}"


def call_site(frame: FrameType) -> str:
    """Return the innermost line of a user's code in a stack, as `file:line`; empty if none."""
    return next(_lines(traceback.walk_stack(frame)), "")


def _lines(frames: Iterable[tuple[FrameType, int]]) -> Iterator[str]:
    """Yield the lines of the frames that run a user's code."""
    skipped = tuple(_folder(name) for name in _FRAMEWORKS if name in sys.modules)
    for frame, line in frames:
        file = frame.f_code.co_filename
        is_standard = file.startswith(_STANDARD_LIBRARY) and not file.startswith(_INSTALLED)
        if not is_standard and not file.startswith((*skipped, *_GENERATED)):
            yield f"{file}:{line}"


def _folder(module: str) -> str:
    file = sys.modules[module].__file__
    assert file is not None
    return f"{Path(file).parent}{os.sep}"
