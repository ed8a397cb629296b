"""Running an exported program on a consumer of StableHLO, on the CPU. Needs no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

from lowering.stablehlo import (
    Module,
    composite_count,
    decompose,
    run,
    run_passes,
    target_passes,
)

Consumer = Literal["jax", "iree", "litert"]
TARGET: Mapping[Consumer, str] = {"jax": "xla", "iree": "iree", "litert": "litert"}
FLOOR = 0.1
"""A number added to the largest value of an output, for outputs that are noise around zero."""


def error_of(folder: Path, consumer: Consumer) -> float:
    """The largest error of a consumer's outputs, for a folder that `consumer_programs` wrote."""
    module = Module.read(folder / "program.mlir")
    module = run_passes(module, target_passes(TARGET[consumer]))
    names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    results = CONSUMERS[consumer](module, arrays(folder / "inputs.npz"))
    got = dict(zip(names, map(np.asarray, results), strict=True))
    expected = dict(zip(names, arrays(folder / "outputs.npz"), strict=True))
    return largest_error(got, expected)


def arrays(file: Path) -> list[np.ndarray]:
    """The arrays of an npz file, by place."""
    with np.load(file) as held:
        return [held[f"arr_{number}"] for number in range(len(held.files))]


def largest_error(got: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """The largest of all outputs; NaN if any value is not a number."""
    errors = [0.0]
    for name, value in got.items():
        if name.endswith("running_var"):
            continue
        want = np.asarray(expected[name], np.float64)
        if value.shape != want.shape:
            raise ValueError(f"{name} has shape {list(value.shape)}, not {list(want.shape)}")
        if want.size:
            difference = np.abs(np.asarray(value, np.float64) - want)
            errors.append(float(difference.max() / (FLOOR + np.abs(want).max())))
    return float(np.max(errors))


def on_jax(module: Module, values: Sequence[np.ndarray]) -> list[Any]:
    return run(module, *values)


def on_iree(module: Module, values: Sequence[np.ndarray]) -> list[Any]:
    import iree.compiler
    import iree.runtime

    compiled = iree.compiler.compile_str(
        module.text,
        input_type="stablehlo",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=generic"],
    )
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
    loaded = iree.runtime.VmModule.copy_buffer(context.instance, compiled)
    context.add_vm_module(loaded)
    results = context.modules[loaded.name].main(*values)
    return list(results) if isinstance(results, tuple | list) else [results]


def on_litert(module: Module, values: Sequence[np.ndarray]) -> list[Any]:
    from ai_edge_litert.interpreter import Interpreter
    from litert_converter import converter_api_ext as converter
    from litert_converter.mlir import ir, passmanager

    text = without_unknown(module).text
    context = ir.Context()
    converter.prepare_mlir_context(context)
    with context, ir.Location.unknown():
        parsed = ir.Module.parse(text)
        # Each output has a name of its own, and there are as many as @main returns.
        body = [operation.operation for operation in parsed.body.operations]
        (main,) = (o for o in body if o.attributes["sym_name"].value == "main")
        (signature,) = (main.attributes["function_type"].value,)
        inputs = [f"input{number}" for number in range(len(signature.inputs))]
        outputs = [f"output{number}" for number in range(len(signature.results))]
        converter.set_signature(parsed.operation, "serving_default", inputs, outputs)
        converter.run_convert_to_tfl_passes(
            parsed, passmanager.PassManager(), converter.ConvertToTFLConfig()
        )
        flatbuffer = converter.export_flatbuffer_to_bytes(parsed.operation)
    interpreter = Interpreter(model_content=flatbuffer)
    interpreter.allocate_tensors()
    infer = interpreter.get_signature_runner("serving_default")
    results = infer(**dict(zip(inputs, values, strict=True)))
    return [results[name] for name in outputs]


def without_unknown(module: Module) -> Module:
    """The program with composites of the names that LiteRT knows alone."""
    known = ("aten.", "odml.", "tfl.")
    names = [name for name in composite_count(module) if not name.startswith(known)]
    return decompose(module, only=names)


CONSUMERS: Mapping[Consumer, Callable[[Module, Sequence[np.ndarray]], list[Any]]] = {
    "jax": on_jax,
    "iree": on_iree,
    "litert": on_litert,
}
