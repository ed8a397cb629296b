"""The devices that a part of a program is compiled for. Each gives a function of numpy arrays.

`on_platform` leaves composites to the compiler, and `with_kernels` puts kernels in their place.
`in_f64` computes on the CPU. IREE and LiteRT get what `composites lower --target` makes of a part.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from ..composites import composite_name, composites_of
from ..dtypes import element_of, numpy_dtype
from ..errors import RunError, UnsupportedOperationError
from ..kernels import PlacedKernels, distinct, put
from ..module import Module
from ..passes.compute_in_f64 import compute_in_f64
from ..passes.decompose import decompose
from ..pipeline import run_passes
from ..run import compile_module, main_types
from ..targets import TARGETS, target_passes

Run: TypeAlias = Callable[..., Sequence[Any]]
Device: TypeAlias = Callable[[Module], Run]
"""Compiles a part. It raises a StableHLOError if it refuses it, and so does what it returns."""


def on_platform(platform: str) -> Device:
    """The first device of a platform of jax."""
    return partial(compile_module, platform=platform)


def with_kernels(placed: PlacedKernels, platform: str) -> Device:
    """The same, with the kernels that were placed in the whole program."""

    def device(part: Module) -> Run:
        taken = {call: placed.taken[call] for call in distinct(part) if call in placed.taken}
        module = decompose(put(part, taken, platform=platform)) if taken else part
        return compile_module(module, platform=platform)

    return device


def in_f64(part: Module) -> Run:
    """The CPU, which computes in f64 and rounds results to their types. Where there is no such
    form, it computes in the part's own types."""
    try:
        wide = compile_module(compute_in_f64(part))
    except (UnsupportedOperationError, RunError):
        return compile_module(part)
    dtypes = [numpy_dtype(element_of(type_)) for type_ in main_types(part)[1]]
    return lambda *arrays: list(map(lambda each, dtype: each.astype(dtype), wide(*arrays), dtypes))


def on_iree(part: Module) -> Run:
    """IREE on the CPU."""
    lowered = run_passes(part, target_passes("iree"))
    with _errors("IREE", "iree-base-compiler iree-base-runtime"):
        import iree.compiler
        import iree.runtime

        compiled = iree.compiler.compile_str(
            lowered.text,
            input_type="stablehlo",
            target_backends=["llvm-cpu"],
            extra_args=["--iree-llvmcpu-target-cpu=generic"],
        )
        context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
        context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, compiled))
        main = context.modules[lowered.name or "module"].main

    def run(*arrays: Any) -> Sequence[Any]:
        import numpy as np

        with _errors("IREE"):
            results = main(*arrays)
            return list(
                map(np.asarray, results if isinstance(results, tuple | list) else [results])
            )

    return run


def on_litert(part: Module) -> Run:
    """LiteRT on the CPU. Composites that it has no operator for are inlined."""
    names = {composite_name(each) for each in composites_of(part.ir)}
    others = [name for name in names if not name.startswith(TARGETS["litert"].native)]
    lowered = run_passes(decompose(part, only=others), target_passes("litert"))
    inputs, outputs = main_types(part)
    arguments = [f"input{number}" for number in range(len(inputs))]
    results = [f"output{number}" for number in range(len(outputs))]
    with _errors("LiteRT", "litert-converter ai-edge-litert"):
        from ai_edge_litert.interpreter import Interpreter
        from litert_converter import converter_api_ext as converter
        from litert_converter.mlir import ir, passmanager

        context = ir.Context()
        converter.prepare_mlir_context(context)
        with context, ir.Location.unknown():
            module = ir.Module.parse(lowered.text)
            converter.set_signature(module.operation, "main", arguments, results)
            config = converter.ConvertToTFLConfig()
            converter.run_convert_to_tfl_passes(module, passmanager.PassManager(), config)
            flatbuffer = converter.export_flatbuffer_to_bytes(module.operation)
        interpreter = Interpreter(model_content=flatbuffer)
        interpreter.allocate_tensors()
        runner = interpreter.get_signature_runner("main")

    def run(*arrays: Any) -> Sequence[Any]:
        with _errors("LiteRT"):
            computed = runner(**dict(zip(arguments, arrays, strict=True)))
            return [computed[name] for name in results]

    return run


BACKENDS: dict[str, Device] = {"iree": on_iree, "litert": on_litert}


@contextmanager
def _errors(name: str, packages: str = "") -> Iterator[None]:
    """Report the errors of another compiler, whose types are its own."""
    try:
        yield
    except ImportError as error:
        message = f"{name} cannot be imported ({error}); pip install {packages}"
        raise RunError(message) from error
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise RunError(f"{name} refuses it: {first[:300]}") from error
