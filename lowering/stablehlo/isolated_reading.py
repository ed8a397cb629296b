"""The process that `isolation.checked` starts. It reads the module on stdin, which may crash the
process, and writes bytecode to stdout again."""

import gc
import os
import sys
import threading

from .bindings import BYTECODE_MAGIC, bytecode
from .errors import BytecodeError, StableHLOError
from .inspection.report import inspect
from .isolation import OUT_OF_MEMORY, REFUSED, Limits
from .module import Module

_STACK = 2**21
"""The stack size in bytes, less than that of threads. Modules that are too deep for them fail
too."""


def main() -> None:
    """Read the module, and exit with 0 if it was read, or is text with an error that jaxlib
    reports."""
    seconds, memory = sys.argv[1:]
    Limits(float(seconds), int(memory)).apply()
    code = 1
    output = os.dup(1)
    os.dup2(2, 1)  # native code may write messages to stdout

    def read() -> None:
        nonlocal code
        try:
            written = _read(sys.stdin.buffer.read())
            gc.collect()  # a damaged module may crash where it is freed
            end = 0
        except BytecodeError as error:
            written, end = str(error).encode(errors="replace"), REFUSED
        except MemoryError:
            written, end = b"", OUT_OF_MEMORY
        with open(output, "wb") as file:
            file.truncate(0)  # a package may have written to stdout when it was imported
            file.seek(0)
            file.write(written)
        code = end

    threading.stack_size(_STACK)
    reader = threading.Thread(target=read)
    reader.start()
    reader.join()
    sys.stderr.flush()
    os._exit(code)  # without cleanup, which is not needed


def _read(data: bytes) -> bytes:
    """Read, verify, copy, print and count a module. Return bytecode as jaxlib writes it; empty for
    text.

    Raises:
        BytecodeError: jaxlib cannot read the bytecode.
    """
    is_bytecode, written = data.startswith(BYTECODE_MAGIC), b""
    try:
        module = Module.from_bytes(data, "")
        if is_bytecode:
            written = bytecode(module.ir)
        module.verify()
        str(module.copy_ir())
        inspect(module)
    except StableHLOError as error:
        if is_bytecode and isinstance(error, BytecodeError):
            raise
        # The next read of the module raises the same error.
    return written
