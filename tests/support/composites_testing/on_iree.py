"""A program on IREE."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import iree.compiler
import iree.runtime

TARGET = {
    "target_backends": ["llvm-cpu"],
    "extra_args": ["--iree-llvmcpu-target-cpu=generic"],
}


def run_on_iree(program: Path, values: Sequence[Any]) -> list[Any]:
    """The results of a StableHLO file."""
    compiled = iree.compiler.compile_file(str(program), input_type="stablehlo", **TARGET)
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
    module = iree.runtime.VmModule.copy_buffer(context.instance, compiled)
    context.add_vm_module(module)
    results = context.modules[module.name].main(*values)
    return list(results) if isinstance(results, tuple | list) else [results]
