"""Running a module with jax's PJRT client, by default on the CPU, and with kernels of libraries."""

import ctypes
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composites.lazy_modules import np

from . import bindings
from .bindings import attributes, bytecode, find_operations, nested_operations
from .data_movement import element_type
from .dtypes import byte_size, static_tensor
from .errors import MissingJaxError, RunError
from .insertion import behind
from .ir_types import IrModule, IrOperation
from .module import Module
from .symbols import check_copies, functions


@dataclass(frozen=True, eq=False)
class Executable:
    """A compiled module. Call it with one numpy (or jax) array for each input of `@main`."""

    inputs: tuple[str, ...]
    """Tensor types of the inputs, as MLIR text."""
    outputs: tuple[str, ...]
    """Tensor types of the outputs, as MLIR text."""
    platform: str
    """The platform that the module was compiled for, such as `cpu` or `cuda`."""
    loaded: Any
    """PJRT's loaded executable."""
    device: Any
    """The device that runs the module."""

    @property
    def temporary_bytes(self) -> int:
        """The device memory that a run needs besides its inputs and results, in bytes, as counted
        by XLA."""
        return int(self.loaded.get_compiled_memory_stats().temp_size_in_bytes)

    @property
    def flops(self) -> int:
        """The floating-point operations of a run, as counted by XLA, without functions such as
        `exp`."""
        return max(0, int(self.loaded.cost_analysis().get("flops", 0)))

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run once and return one numpy array for each output.

        Raises:
            RunError: the arrays do not fit the inputs, or the platform reports a failure.
        """
        buffers = self.place(*arrays)
        try:
            return [np.asarray(result) for result in self.start(buffers)]
        except (RuntimeError, ValueError) as error:
            raise self._failure(error) from error

    def place(self, *arrays: Any) -> list[Any]:
        """Put arrays on the device, for `execute`.

        Raises:
            RunError: the arrays do not fit the inputs, or the device.
        """
        import jax

        check_arrays(self.inputs, arrays)
        # 64-bit types are enabled, because jax would otherwise silently convert them to 32 bits.
        try:
            with enable_x64():
                return [jax.device_put(array, self.device) for array in arrays]
        except (RuntimeError, TypeError, ValueError) as error:
            raise RunError(f"the arrays cannot be put on {self.platform}: {error}") from error

    def execute(self, buffers: list[Any]) -> list[Any]:
        """Run once on arrays that `place` returned, and wait. The results stay on the device.

        Raises:
            RunError: the platform reports a failure.
        """
        try:
            return [result.block_until_ready() for result in self.start(buffers)]
        except (RuntimeError, ValueError) as error:
            raise self._failure(error) from error

    def start(self, buffers: list[Any]) -> list[Any]:
        """Run once on arrays that `place` returned, without waiting. A failure is jax's own error,
        raised by this call or where a result is used."""
        results = self.loaded.execute_sharded(buffers)
        return [shard[0] for shard in results.disassemble_into_single_device_arrays()]

    def _failure(self, error: Exception) -> RunError:
        return RunError(f"the module failed on {self.platform}: {error}")


def check_arrays(types: Sequence[str], arrays: Sequence[Any]) -> None:
    """Check that arrays fit the types of the inputs of `@main`.

    Raises:
        RunError: the arrays differ from the types; the message says how.
    """
    if len(arrays) != len(types):
        raise RunError(f"@main takes {len(types)} inputs ({', '.join(types)}), got {len(arrays)}")
    for number, (expected, array) in enumerate(zip(types, arrays, strict=True)):
        shape, dtype = np.shape(array), _dtype(array)
        if (shape, dtype) != static_tensor(expected):
            raise RunError(
                f"input {number} of @main is {expected}, got an array of shape "
                f"{shape} and dtype {dtype}"
            )


def run(module: Module, *arrays: Any, platform: str = "cpu") -> list[Any]:
    """Compile and run a module once. `compile_module` keeps the executable for more runs."""
    return compile_module(module, platform=platform)(*arrays)


_registered: dict[str, tuple[str, str]] = {}
"""The library and platform of each target. XLA keeps targets registered until the process ends."""


def register_targets(
    targets: Iterable[str], libraries: Iterable[str | os.PathLike[str]], *, platform: str = "cpu"
) -> None:
    """Register, for each target, the symbol of that name in a shared library.

    The first library that has the symbol counts. The symbols are handlers that
    XLA_FFI_DEFINE_HANDLER_SYMBOL makes. Without libraries, nothing is registered: the targets must
    be registered in the process already.

    Raises:
        RunError: a library cannot be loaded, or no library has the symbol.
    """
    paths = [Path(path).resolve() for path in libraries]
    if not paths:
        return
    jax = import_jax()
    loaded = [(str(path), _load(path)) for path in paths]
    for target in dict.fromkeys(targets):
        having = [(path, library) for path, library in loaded if hasattr(library, target)]
        if not having:
            raise RunError(
                f"no library has the symbol {target} ({', '.join(map(str, paths))}); name the "
                "handler as in XLA_FFI_DEFINE_HANDLER_SYMBOL"
            )
        path, library = having[0]
        if _registered.get(target) == (path, platform):
            continue
        try:
            capsule = jax.ffi.pycapsule(getattr(library, target))
            jax.ffi.register_ffi_target(target, capsule, platform=platform)
        except Exception as error:  # XLA's own errors differ from release to release
            raise RunError(f"{target} of {path} cannot be registered: {error}") from error
        _registered[target] = (path, platform)


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise RunError(f"the library {path} cannot be loaded: {error}") from error


_LIBRARY = (
    "; first register the library that has this target (register_targets, --library), or, for a"
    " plug-in, use the package that registers its targets with jax"
)
_HINTS = {
    "!quant.": "; XLA has no quantized types",
    "No registered implementation for": _LIBRARY,  # jaxlib 0.7.1
    "No FFI handler registered": _LIBRARY,
}
"""Advice, by a substring of XLA's own message."""


def compile_module(module: Module, *, platform: str = "cpu") -> Executable:
    """Compile a module for the first device of a platform.

    Custom calls must be registered with `jax.ffi.register_ffi_target` beforehand.

    Raises:
        MissingJaxError: jax is not installed.
        RunError: the module has no `@main`, the platform does not exist, or XLA rejects the module.
        SizeError: XLA, which inlines all functions, would make too many operations.
    """
    inputs, outputs = main_types(module)
    check_copies(module.ir, remedy="run a part of the module")
    backend = _backend(platform)
    device = backend.local_devices()[0]
    program = bytecode(for_platform(module.ir, platform))
    try:
        loaded = backend.compile_and_load(program, [device], _options())
    except (RuntimeError, ValueError) as error:
        hint = next((hint for text, hint in _HINTS.items() if text in str(error)), "")
        raise RunError(f"XLA cannot compile the module for {platform}{hint}: {error}") from error
    return Executable(inputs, outputs, platform, loaded, device)


def _options() -> Any:
    """The options of jax's compiler. Without them, XLA:CPU (jaxlib 0.10 to 0.12) drops NaN in all
    maxima; with them, only in large maxima (see known-differences.md)."""
    from jax.extend.backend import get_compile_options

    return get_compile_options(num_replicas=1, num_partitions=1)


_HEAP_BYTES = 30 << 20
_FOLDED = frozenset(
    f"stablehlo.{name}"
    for name in ("broadcast_in_dim", "constant", "convert", "iota", "reshape", "transpose")
)
"""Operations whose results XLA seldom stores, because it fuses them into their users."""


def compiler_options(module: Module, platform: str) -> dict[str, Any] | None:
    """The XLA options for a program that runs many times, by platform.

    XLA:CPU allocates all temporary values of a call at once. glibc gets memory of more than 32 MiB
    from the system, which clears it, and returns it after the call (measured with glibc 2.36).
    Heaps of at most 30 MiB are reused from call to call. The limit is not set for a program with a
    larger value, since XLA would log a warning about the value.
    """
    if platform != "cpu":
        return None
    operations = (op for op in nested_operations(module.ir) if op.name not in _FOLDED)
    types = {result.type for operation in operations for result in operation.results}
    if any(byte_size(type_) > _HEAP_BYTES for type_ in types):
        return None
    return {"xla_multiheap_size_constraint_per_heap": _HEAP_BYTES}


def for_platform(module: IrModule, platform: str) -> IrModule:
    """The module in a form that the platform can compile: for the CPU, with a barrier after each
    product from bf16 to f32. Returns the module itself if nothing changes.

    XLA:CPU (jaxlib 0.7.1 to 0.12.0) rejects such a product if it fuses a transpose of the result
    into it: "Unsupported element type for DotThunk::Execute: BF16 x BF16 = F32". The numbers are
    the same with the barrier.
    """

    def products(root: IrModule) -> list[IrOperation]:
        dots = find_operations(root.operation, "stablehlo.dot_general", "stablehlo.dot")
        return [
            product
            for product in dots
            if element_type(product.results[0]) == "f32"
            and all(element_type(operand) == "bf16" for operand in product.operands)
            and "algorithm" not in attributes(product)
        ]

    if platform != "cpu" or not products(module):
        return module
    copy = bindings.clone(module)
    for product in products(copy):
        behind(product.results[0], "stablehlo.optimization_barrier", product.results[0].type)
    return copy


def main_types(module: Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Input and result types of `@main`, as MLIR text.

    Raises:
        RunError: the module has no `@main`.
    """
    main = functions(module.ir).get("main")
    if main is None:
        raise RunError(
            f"the module has no function @main to run; it has: "
            f"{', '.join('@' + name for name in functions(module.ir)) or 'none'}"
        )
    return function_types(main)


def function_types(function: IrOperation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Input and result types of a function, as MLIR text."""
    type_ = attributes(function)["function_type"].value
    return tuple(map(str, type_.inputs)), tuple(map(str, type_.results))


def enable_x64(enabled: bool = True) -> Any:
    """A context manager that enables 64-bit types in jax. Newer releases of jax have moved it."""
    jax = import_jax()
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(enabled)
    from jax.experimental import enable_x64 as experimental

    return experimental(enabled)


def import_jax() -> Any:
    """Import jax. The error for a missing jax names the package to install."""
    try:
        import jax
    except ImportError as error:
        raise MissingJaxError(
            f"running or binding needs jax, but jax cannot be imported ({error}); "
            "install it with: pip install jax"
        ) from error
    return jax


def _backend(platform: str | None) -> Any:
    jax = import_jax()
    from jax.extend import backend

    try:
        return backend.get_backend(platform)
    except RuntimeError as error:
        allowed = jax.config.jax_platforms
        if platform is None or not allowed or {platform, "gpu"} & {*allowed.split(",")}:
            advice = ""
        else:
            advice = f" (if it is there, name it: JAX_PLATFORMS={allowed},{platform})"
        message = f"jax has no platform {platform!r} on this machine: {error}{advice}"
        raise RunError(message) from error


def is_plugin(platform: str) -> bool:
    """Return True for the name of a PJRT plug-in that jax has started."""
    from jax.extend.backend import backends

    return platform not in ("cpu", "cuda", "gpu", "rocm", "tpu") and platform in backends()


def local_devices(platform: str | None = None) -> list[Any]:
    """The devices of a platform in this process; by default, those of jax's default platform.

    Raises:
        RunError: the platform does not exist.
    """
    devices: list[Any] = _backend(platform).local_devices()
    return devices


def _dtype(array: Any) -> Any:
    return np.dtype(array.dtype) if hasattr(array, "dtype") else np.asarray(array).dtype
