"""`@main` of a module as a JAX function, which jit divides among devices."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from . import bindings
from .dtypes import static_tensor
from .errors import RunError
from .module import Module
from .passes.decompositions import decompose
from .passes.products import fold_transposes, has_vectors
from .run import enable_x64, for_platform, import_jax, is_plugin, main_types
from .symbols import check_copies


def jax_function(module: Module, *, platform: str = "cpu") -> Callable[..., tuple[Any, ...]]:
    """A function of jax arrays that returns a tuple of arrays. Put the function under `jax.jit`.

    The function calls an exported JAX function of the same types, whose StableHLO is replaced by
    the module's, so all features of jit work: shardings, donation, the cache of compiled programs,
    and several processes. Programs with 64-bit types are called with `jax.enable_x64`.

    For the CPU, products with a vector read transposed matrices in their order in memory; see
    `passes.products`.

    Args:
        platform: the platform by jax's name, such as `cpu`, `cuda`, `tpu` or that of a plug-in,
            which may have another name for itself.

    Raises:
        MissingJaxError: jax is not installed.
        RunError: the module has no `@main`, or `@main` has a type that jax lacks.
        SizeError: XLA, which inlines all functions, would make too many operations.
    """
    jax = import_jax()
    import jax.numpy as jnp
    from jax import export

    inputs, results = ([_shape(jax, text) for text in types] for types in main_types(module))
    check_copies(module.ir, remedy="call a part of the module")

    def zeros(*_: Any) -> tuple[Any, ...]:
        return tuple(jnp.zeros(result.shape, result.dtype) for result in results)

    with enable_x64():
        # keep_unused: argument N of `@main` is argument N of the function.
        like = export.export(
            jax.jit(zeros, keep_unused=True),
            platforms=[platform],
            disabled_checks=[export.DisabledSafetyCheck.platform()] if is_plugin(platform) else (),
        )(*inputs)
    newest = ".".join(map(str, bindings.current_version()))
    if platform == "cpu" and has_vectors(module.ir):
        module = fold_transposes(decompose(module))
    code = Module(for_platform(module.ir, platform)).portable(newest)
    function: Callable[..., tuple[Any, ...]] = replace(like, mlir_module_serialized=code).call
    return function


def _shape(jax: Any, text: str) -> Any:
    static = static_tensor(text)
    if static is None:
        raise RunError(f"jax has no array type for {text}")
    shape, dtype = static
    return jax.ShapeDtypeStruct(shape, dtype)
