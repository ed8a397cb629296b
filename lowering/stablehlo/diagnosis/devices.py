"""Devices that a part of a program is compiled for. A compiled part is a function of numpy arrays.

`on_platform` leaves composites to the compiler, and `with_kernels` replaces composites by kernels.
`in_f64` computes on the CPU. IREE and LiteRT get a part in the form of
`composites lower --target`, and OpenVINO reads LiteRT's flatbuffer.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any, TypeAlias

from composites.errors import MissingPackageError
from composites.lazy_modules import np

from ..composites import composite_name, find_composites
from ..dtypes import element_name, numpy_dtype
from ..errors import RunError, UnsupportedOperationError
from ..kernels import PlacedKernels, distinct, put
from ..module import Module
from ..passes.compute_in_f64 import compute_in_f64
from ..passes.decompositions import decompose
from ..pipeline import run_passes
from ..run import Executable, compile_module, main_types
from ..targets import TARGETS, target_passes

Run: TypeAlias = Callable[..., Sequence[Any]]
Device: TypeAlias = Callable[[Module], Run]
"""A compiler of parts. It raises a StableHLOError for a refused part, and so may the result."""


def on_platform(platform: str) -> Callable[[Module], Executable]:
    """The first device of a platform of jax."""
    return partial(compile_module, platform=platform)


def with_kernels(placed: PlacedKernels, platform: str) -> Device:
    """A device of jax, with the kernels that were placed in the whole program."""

    def device(part: Module) -> Run:
        kernels = {call: placed.taken[call] for call in distinct(part) if call in placed.taken}
        module = decompose(put(part, kernels, platform=platform)) if kernels else part
        return compile_module(module, platform=platform)

    return device


def in_f64(part: Module) -> Run:
    """Compile a part for the CPU, in f64 with results rounded to their types. If the part has no
    form in f64, it is computed in its own types."""
    try:
        wide = compile_module(compute_in_f64(part))
    except (UnsupportedOperationError, RunError):
        return compile_module(part)
    dtypes = [numpy_dtype(element_name(type_)) for type_ in main_types(part)[1]]
    return lambda *arrays: list(map(lambda a, dtype: a.astype(dtype), wide(*arrays), dtypes))


def by_iree(module: Module) -> Run:
    """Compile a program with IREE for the CPU."""
    with _errors("IREE", "iree-base-compiler iree-base-runtime"):
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
        main = context.modules[loaded.name].main

    def run(*arrays: Any) -> Sequence[Any]:
        with _errors("IREE"):
            results = main(*arrays)
            return [np.asarray(r) for r in (results if isinstance(results, tuple) else [results])]

    return run


def by_litert(module: Module) -> Run:
    """Compile a program with LiteRT for the CPU."""
    flatbuffer = litert_flatbuffer(module)
    names = [f"output{number}" for number in range(len(main_types(module)[1]))]
    with _errors("LiteRT"):
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(model_content=flatbuffer)
        interpreter.allocate_tensors()
        runner = interpreter.get_signature_runner(SIGNATURE)

    def run(*arrays: Any) -> Sequence[Any]:
        with _errors("LiteRT"):
            results = runner(**{f"input{number}": array for number, array in enumerate(arrays)})
            return [results[name] for name in names]

    return run


def by_openvino(module: Module) -> Run:
    """Compile a program with OpenVINO for the CPU, from the flatbuffer for LiteRT."""
    with _errors("OpenVINO", "openvino litert-converter"):
        import openvino

    flatbuffer = litert_flatbuffer(module)
    with _errors("OpenVINO"), TemporaryDirectory() as folder:
        file = Path(folder, "program.tflite")  # OpenVINO reads such programs only from files
        file.write_bytes(flatbuffer)
        core = openvino.Core()
        core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        compiled = core.compile_model(core.read_model(file), "CPU")

    def run(*arrays: Any) -> Sequence[Any]:
        with _errors("OpenVINO"):
            inputs = {f"{SIGNATURE}_input{n}": array for n, array in enumerate(arrays)}
            results = compiled(inputs)
            return [results[f"{SIGNATURE}_output{n}_output"] for n in range(len(results))]

    return run


SIGNATURE = "serving_default"
"""The name of a program in its flatbuffer."""


def litert_flatbuffer(module: Module) -> bytes:
    """Convert a program to a flatbuffer for LiteRT, with numbered inputs and outputs."""
    with _errors("LiteRT", "litert-converter ai-edge-litert"):
        from litert_converter import converter_api_ext as converter
        from litert_converter.mlir import ir, passmanager

        config = converter.ConvertToTFLConfig()
        config.strict_qdq_mode = any(name.startswith("quant.") for name in _names(module))
        inputs, outputs = map(len, main_types(module))
        context = ir.Context()
        converter.prepare_mlir_context(context)
        with context, ir.Location.unknown():
            parsed = ir.Module.parse(module.text)
            converter.set_signature(
                parsed.operation,
                SIGNATURE,
                [f"input{number}" for number in range(inputs)],
                [f"output{number}" for number in range(outputs)],
            )
            converter.run_convert_to_tfl_passes(parsed, passmanager.PassManager(), config)
            flatbuffer: bytes = converter.export_flatbuffer_to_bytes(parsed.operation)
            return flatbuffer


def without_unknown(module: Module) -> Module:
    """The program, in which only the composites whose names LiteRT knows are not decomposed."""
    native = (*TARGETS["litert"].native, "odml.", "quant.")
    return decompose(module, only=[name for name in _names(module) if not name.startswith(native)])


def _names(module: Module) -> set[str]:
    return {composite_name(composite) for composite in find_composites(module.ir)}


def _for_litert(part: Module) -> Module:
    return without_unknown(run_passes(part, target_passes("litert")))


BACKENDS: dict[str, Device] = {
    "iree": lambda part: by_iree(run_passes(part, target_passes("iree"))),
    "litert": lambda part: by_litert(_for_litert(part)),
    "openvino": lambda part: by_openvino(_for_litert(part)),
}


@contextmanager
def _errors(name: str, packages: str = "") -> Iterator[None]:
    """Report the errors of another compiler, which has its own error types.

    Raises:
        MissingPackageError: the compiler is not installed.
        RunError: the compiler refuses the program.
    """
    try:
        yield
    except ImportError as error:
        message = f"{name} cannot be imported ({error}); pip install {packages}"
        raise MissingPackageError(message) from error
    except Exception as error:
        raise RunError(f"{name} refuses the program: {shorten(str(error), 600)}") from error
