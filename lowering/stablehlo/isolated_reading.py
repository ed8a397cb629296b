"""The process that `isolation.check` starts: it reads the module on stdin, which may crash it."""

import gc
import os
import sys
import threading

from .errors import StableHLOError
from .inspection.report import inspect
from .isolation import OUT_OF_MEMORY, Limits
from .module import Module

_STACK = 2**21
"""Bytes. Threads have more, so what is nested too deeply for them is too deep here as well."""


def main() -> None:
    """Read the module, and end with 0 if it was read or is wrong in a way that jaxlib reports."""
    seconds, memory = sys.argv[1:]
    Limits(float(seconds), int(memory)).apply()
    code = 1

    def read() -> None:
        nonlocal code
        try:
            _read(sys.stdin.buffer.read())
            gc.collect()  # a damaged module may crash where it is freed
            code = 0
        except MemoryError:
            code = OUT_OF_MEMORY

    threading.stack_size(_STACK)
    reader = threading.Thread(target=read)
    reader.start()
    reader.join()
    sys.stderr.flush()
    os._exit(code)  # there is nothing to tidy up


def _read(data: bytes) -> None:
    """Read, verify, copy, print and count a module."""
    try:
        module = Module.from_bytes(data)
        module.verify()
        str(module.copy_ir())
        inspect(module)
    except StableHLOError:
        pass  # whoever reads it next gets the same error
