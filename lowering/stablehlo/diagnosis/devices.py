"""The devices that a part of a program is compiled for.

| device | what runs |
|---|---|
| `on_platform` | the part as it is, by a client of jax: composites reach the compiler |
| `in_f64` | the part in f64 on the CPU, rounded to its types; as it is if there is no such form |
| `with_kernels` | the part with kernels in place of composites |
| `on_iree`, `on_litert` | what `composites lower --target` makes of the part |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from ..composites import composite_name, composites_of
from ..dtypes import element_of, numpy_dtype
from ..errors import RunError, UnsupportedOperationError
from ..kernels import Candidates, place_kernels
from ..module import Module
from ..passes.compute_in_f64 import compute_in_f64
from ..passes.decompose import decompose
from ..pipeline import run_passes
from ..run import compile_module, main_types
from ..targets import TARGETS, target_passes


@dataclass(frozen=True)
class Compiled:
    """A part that a device can run."""

    run: Callable[..., Sequence[Any]]
    """Takes and returns numpy arrays."""
    kernel: str | None = None
    """The names of the kernels in it; None if there are none."""
    why_no_kernel: str | None = None
    """The reasons why kernels that were asked for do not take it."""


Device: TypeAlias = Callable[[Module], Compiled]
"""Compiles a part.

Raises:
    StableHLOError: the device refuses it.
"""


def on_platform(platform: str) -> Device:
    """The first device of a platform of jax."""
    return lambda part: Compiled(compile_module(part, platform=platform))


def in_f64(part: Module) -> Compiled:
    """The CPU, which computes in f64."""
    try:
        wide = compile_module(compute_in_f64(part))
    except (UnsupportedOperationError, RunError):
        return Compiled(compile_module(part))
    _, outputs = main_types(part)
    dtypes = [numpy_dtype(element_of(type_)) for type_ in outputs]

    def run(*arrays: Any) -> list[Any]:
        return [each.astype(dtype) for each, dtype in zip(wide(*arrays), dtypes, strict=True)]

    return Compiled(run)


def with_kernels(candidates: Candidates, platform: str) -> Device:
    """The first device of a platform of jax, with the first kernel that takes a call."""

    def compile_part(part: Module) -> Compiled:
        if not composites_of(part.ir):
            return Compiled(compile_module(part, platform=platform))
        placed = place_kernels(part, candidates, platform=platform)
        names = ", ".join(dict.fromkeys(use.kernel for use in placed.uses if use.kernel))
        reasons = "; ".join(dict.fromkeys(placed.reasons.values()))
        module = decompose(placed.module)
        return Compiled(compile_module(module, platform=platform), names or None, reasons or None)

    return compile_part


def on_iree(part: Module) -> Compiled:
    """IREE on the CPU."""
    try:
        import iree.compiler
        import iree.runtime
    except ImportError as error:
        raise RunError(_missing("IREE", "iree-base-compiler iree-base-runtime", error)) from error
    lowered = run_passes(part, target_passes("iree"))
    options = ["--iree-llvmcpu-target-cpu=generic"]
    try:
        compiled = iree.compiler.compile_str(
            lowered.text, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=options
        )
    except Exception as error:  # of IREE's own types
        raise RunError(f"IREE cannot compile the part: {_first_line(error)}") from error
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, compiled))
    main = context.modules[lowered.name or "module"].main
    return Compiled(partial(_run_on_iree, main))


def _run_on_iree(main: Callable[..., Any], *arrays: Any) -> list[Any]:
    import numpy as np

    try:
        results = main(*arrays)
    except Exception as error:  # of IREE's own types
        raise RunError(f"the part failed on IREE: {_first_line(error)}") from error
    return list(map(np.asarray, results if isinstance(results, tuple | list) else [results]))


def on_litert(part: Module) -> Compiled:
    """LiteRT on the CPU. It inlines composites that it has no operator for."""
    try:
        from ai_edge_litert.interpreter import Interpreter
        from litert_converter import converter_api_ext as converter
        from litert_converter.mlir import ir, passmanager
    except ImportError as error:
        raise RunError(_missing("LiteRT", "litert-converter ai-edge-litert", error)) from error
    native = TARGETS["litert"].native
    names = {composite_name(each) for each in composites_of(part.ir)}
    known = decompose(part, only=[name for name in names if not name.startswith(native)])
    lowered = run_passes(known, target_passes("litert"))
    inputs, outputs = map(len, main_types(part))
    given = [f"input{number}" for number in range(inputs)]
    results = [f"output{number}" for number in range(outputs)]
    context = ir.Context()
    converter.prepare_mlir_context(context)
    try:
        with context, ir.Location.unknown():
            module = ir.Module.parse(lowered.text)
            converter.set_signature(module.operation, "serving_default", given, results)
            config = converter.ConvertToTFLConfig()
            converter.run_convert_to_tfl_passes(module, passmanager.PassManager(), config)
            flatbuffer = converter.export_flatbuffer_to_bytes(module.operation)
        interpreter = Interpreter(model_content=flatbuffer)
        interpreter.allocate_tensors()
        runner = interpreter.get_signature_runner("serving_default")
    except Exception as error:  # of LiteRT's own types
        raise RunError(f"LiteRT cannot convert the part: {_first_line(error)}") from error

    def run(*arrays: Any) -> list[Any]:
        got = runner(**dict(zip(given, arrays, strict=True)))
        return [got[name] for name in results]

    return Compiled(run)


BACKENDS: dict[str, Device] = {"iree": on_iree, "litert": on_litert}


def _missing(name: str, packages: str, error: ImportError) -> str:
    return f"{name} cannot be imported ({error}); install it with: pip install {packages}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
