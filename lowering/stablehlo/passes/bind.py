"""bind: use JAX functions (jnp, jax.ffi.ffi_call, Pallas) as the decompositions of composites.

    bind(module, {"ptxla.softmax": my_softmax})

    def my_softmax(x, *, dim):   # composite operands by position, attributes by keyword
        return jax.nn.softmax(x, axis=dim)

The composites stay. A consumer that does not know their names runs the new code.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from composites.functions import load_function

from ..bindings import IrModule, IrOperation, attributes, building, copy_into, ir
from ..composites import Signature, composite_name, composites_of, require, signature
from ..dtypes import static_tensor
from ..errors import BindError, StableHLOError
from ..module import Module
from ..options import Option, PassOptions, pairs
from ..pipeline import Pass
from ..run import enable_x64, function_types, import_jax
from ..symbols import Namer, function_name, functions, make_private, retarget
from .drop_unused_functions import drop_unused_functions
from .rename_decompositions import rename_decompositions

# Attributes of a jax entry point that have no meaning inside another module.
_ENTRY_ATTRIBUTES = ("arg_attrs", "res_attrs")


def bind(
    module: Module, bindings: Mapping[str, Callable[..., Any]], *, platform: str | None = None
) -> Module:
    """Point composites at the lowering of JAX functions with the same signature.

    A function gets the operands as positional arguments. It gets those attributes as keyword
    arguments for which it has a parameter, or all of them if it takes `**kwargs`. Lists arrive as
    tuples, and types as text. Other attributes are not passed, so a function can ignore attributes.
    It must return an array, or a flat sequence of arrays, of exactly the types of the composite's
    results. It is lowered once for each distinct composite signature.

    64-bit types are enabled during lowering if the composite has any.

    Args:
        module: the module to start from.
        bindings: a function for each composite name.
        platform: the platform to lower for, such as `cpu` or `cuda`; by default jax's default
            platform.

    Raises:
        UnknownCompositeError: the module has no composite of a given name.
        BindError: the function fails for a call or returns other types; the message names the call.
    """
    result = module.copy_ir()
    composites = composites_of(result)
    require({composite_name(composite) for composite in composites}, bindings)
    calls: dict[Signature, list[IrOperation]] = {}
    for composite in composites:
        if composite_name(composite) in bindings:
            calls.setdefault(signature(composite), []).append(composite)
    fresh = Namer(functions(result))
    for call, users in calls.items():
        lowered = _lower(bindings[call.name], call, platform)
        copy = copy_into(result.context, lowered)
        retarget(users, _merge(copy, result, fresh, call))
    return rename_decompositions(drop_unused_functions(Module(result)))


def keyword_attributes(fn: Callable[..., Any], call: Signature) -> dict[str, Any]:
    """The attributes of a composite for which `fn` has keyword parameters."""
    given = call.python_attributes()
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # a builtin without a readable signature
        return {}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return given
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    filled = {parameter.name for parameter in by_position[: len(call.operands)]}
    accepted = {
        p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    } - filled
    return {name: value for name, value in given.items() if name in accepted}


def _lower(fn: Callable[..., Any], call: Signature, platform: str | None) -> IrModule:
    """The module that jax makes from `fn` for one composite signature, checked against it."""
    jax = import_jax()
    keywords = keyword_attributes(fn, call)
    try:
        with enable_x64(_has_64_bit_types(call)):
            operands = [_shape_dtype_struct(jax, type_) for type_ in call.operands]
            # Attributes are bound beforehand, because jit would trace them as arrays.
            traced = jax.jit(partial(fn, **keywords), keep_unused=True).trace(*operands)
            platforms = None if platform is None else (platform,)
            module = traced.lower(lowering_platforms=platforms).compiler_ir("stablehlo")
    except StableHLOError:
        raise
    except Exception as error:
        raise BindError(
            f"{call.name}: {_name(fn)} cannot be lowered for ({', '.join(call.operands)})"
            f"{_shown(keywords)}: {type(error).__name__}: {error}"
        ) from error
    _check_results(fn, call, function_types(functions(module)["main"])[1])
    return module


def _check_results(fn: Callable[..., Any], call: Signature, results: tuple[str, ...]) -> None:
    if results != call.results:
        raise BindError(
            f"{call}: {_name(fn)} returns ({', '.join(results)}); "
            f"it must return ({', '.join(call.results)})"
        )


def _merge(lowered: IrModule, module: IrModule, fresh: Namer, call: Signature) -> str:
    """Move the functions of `lowered` into `module` under free names. Returns the entry's new
    name."""
    base = f"{call.name}.impl"
    # The new names exist in neither module, so that no reference changes its meaning halfway.
    names = {}
    for name, function in functions(lowered).items():
        names[name] = fresh(base if name == "main" else f"{base}.{name}")
        ir().SymbolTable.replace_all_symbol_uses(name, names[name], lowered.operation)
        with building(lowered.context):
            function.attributes["sym_name"] = ir().StringAttr.get(names[name])
        make_private(function)
    for operation in list(lowered.body.operations):
        if operation.operation.name != "func.func":
            raise BindError(
                f"{call.name}: the function lowers to {operation.operation.name} in addition to "
                "functions (is it sharded?); only functions can be merged into a module"
            )
        if function_name(operation) == names["main"]:
            for name in _ENTRY_ATTRIBUTES:
                if name in attributes(operation):
                    del operation.attributes[name]
        module.body.append(operation.operation.detach_from_parent())
    return names["main"]


def _shape_dtype_struct(jax: Any, type_: str) -> Any:
    static = static_tensor(type_)
    if static is None:
        raise BindError(f"{type_}: a JAX function needs static shapes; refine the module first")
    return jax.ShapeDtypeStruct(*static)


def _has_64_bit_types(call: Signature) -> bool:
    wide = ("i64>", "f64>", "complex<f64>>")
    return any(type_.endswith(wide) for type_ in (*call.operands, *call.results))


def _shown(keywords: dict[str, Any]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in keywords.items())
    return f" with {text}" if text else ""


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", None) or type(fn).__name__


def _bound(given: list[str]) -> list[Pass]:
    functions = {name: load_function(path) for name, path in pairs("--bind", given).items()}
    return [partial(bind, bindings=functions)]


OPTIONS = PassOptions(
    (
        Option(
            "--bind",
            "Use a JAX function as this composite's decomposition.",
            metavar="NAME=MODULE:FUNCTION",
        ),
    ),
    _bound,
)
