"""bind: use JAX functions (jnp, jax.ffi.ffi_call, Pallas) as the decompositions of composites.

    bind(module, {"ptxla.softmax": my_softmax})

    def my_softmax(x, *, dim):   # composite operands by position, attributes by keyword
        return jax.nn.softmax(x, axis=dim)

The composites stay. A consumer that does not know the composites' names runs the new code.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from composites.errors import UnsupportedCallError
from composites.user_code import described

from ..bindings import attributes, copy_into, ir
from ..candidates import Candidate, callable_name, named_candidates
from ..composites import Signature, find_composites, signature
from ..dtypes import static_tensor
from ..errors import BindError, StableHLOError
from ..ir_types import IrModule, IrOperation
from ..module import Module
from ..run import enable_x64, function_types, import_jax
from ..symbols import Namer, function_name, functions, make_private, rename, retarget
from .decompositions import drop_unused_functions, rename_decompositions

# Attributes of a jax entry point that have no meaning inside another module.
_ENTRY_ATTRIBUTES = ("arg_attrs", "res_attrs")


def bind(
    module: Module,
    bindings: Mapping[str, Callable[..., Any]],
    *,
    ignored: Mapping[str, Collection[str]] | None = None,
    platform: str | None = None,
    declined: Callable[[Signature, str], None] | None = None,
) -> Module:
    """Point composites at the lowering of JAX functions with the same signature.

    A function gets the operands as positional arguments and the attributes as keyword arguments.
    Lists arrive as tuples, and types as text. The function needs a parameter (or `**kwargs`) for
    each attribute of a call, because a function that does not read an attribute computes something
    else. Attributes that do not matter to the function are listed in `ignored`, and are not passed.
    The function must return an array, or a flat sequence of arrays, of exactly the types of the
    composite's results. It is lowered once for each distinct composite signature.

    64-bit types are enabled during lowering if the composite has any.

    Args:
        module: the module to start from.
        bindings: a function for each composite, by name (`acme.gelu`) or by name and version
            (`acme.gelu@2`).
        ignored: attributes that the function ignores, by composite.
        platform: the platform to lower for, such as `cpu` or `cuda`; by default jax's default
            platform.
        declined: called with a call and the reason if a function raises `UnsupportedCallError`. The
            call then keeps its decomposition. By default, the error is raised.

    Raises:
        UnknownCompositeError: the module has no composite of a name.
        CompositeVersionError: the module has another version of the composite.
        BindError: the function lacks a parameter for an attribute, fails for a call, or returns
            other types; the message names the call.
    """
    candidates = named_candidates(module.ir, bindings, ignored)
    return bind_calls(module, candidates, platform=platform, declined=declined)


def bind_calls(
    module: Module,
    candidates: Mapping[Signature, Candidate],
    *,
    platform: str | None = None,
    declined: Callable[[Signature, str], None] | None = None,
) -> Module:
    """`bind` with a function for each call, instead of a function for each composite.

    Calls that the module does not have are left out.
    """
    result = module.copy_ir()
    calls: dict[Signature, list[IrOperation]] = {}
    for composite in find_composites(result):
        calls.setdefault(signature(composite), []).append(composite)
    fresh = Namer(functions(result))
    for call, users in calls.items():
        candidate = candidates.get(call)
        if candidate is None:
            continue
        try:
            lowered = _lower(candidate, call, platform)
        except BindError as error:
            if declined is None or not isinstance(error.__cause__, UnsupportedCallError):
                raise
            declined(call, str(error.__cause__))
            continue
        copy = copy_into(result.context, lowered)
        retarget(users, _merge(copy, result, fresh, call))
    return rename_decompositions(drop_unused_functions(Module(result)))


def keyword_attributes(
    fn: Callable[..., Any], call: Signature, ignored: Collection[str] = ()
) -> dict[str, Any]:
    """The attributes of a composite, without `ignored` ones, as keyword arguments for `fn`.

    Raises:
        BindError: `fn` has no parameter for an attribute.
    """
    named = {name: value for name, value in call.python_attributes().items() if name not in ignored}
    accepted = _keywords(fn, len(call.operands))
    missing = [] if accepted is None else [name for name in named if name not in accepted]
    if missing:
        names = ", ".join(missing)
        raise BindError(
            f"{call}: {callable_name(fn)} has no parameter for {names}, which the call sets "
            f"({_listed({name: named[name] for name in missing})}); give it such a keyword "
            f"parameter, or list {names} as ignored if the result does not depend on it "
            f"(ignored=, --ignore-attribute {call.name}={','.join(missing)})"
        )
    return named


def _keywords(fn: Callable[..., Any], operands: int) -> set[str] | None:
    """The parameters that the operands leave for attributes; None if any name is accepted."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # a builtin without a readable signature
        return set()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    filled = {parameter.name for parameter in by_position[:operands]}
    return {
        p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    } - filled


def _lower(candidate: Candidate, call: Signature, platform: str | None) -> IrModule:
    """Lower a function for one composite signature, and check the types of its results."""
    jax = import_jax()
    fn: Any = candidate.kernel
    keywords = keyword_attributes(fn, call, candidate.ignored)
    is_wide = any(t.endswith(("i64>", "f64>", "f64>>")) for t in (*call.operands, *call.results))
    try:
        with enable_x64(candidate.is_alternative or is_wide):
            operands = [_shape_dtype_struct(jax, type_) for type_ in call.operands]
            # Attributes are bound beforehand, because jit would trace them as arrays.
            bound = partial(fn, **keywords)
            if candidate.listed_as is not None:
                bound = partial(_leading_results, bound, len(call.results))
            traced = jax.jit(bound, keep_unused=True).trace(*operands)
            platforms = None if platform is None else (platform,)
            module = traced.lower(lowering_platforms=platforms).compiler_ir("stablehlo")
    except StableHLOError:
        raise
    except Exception as error:
        named = f" with {_listed(keywords)}" if keywords else ""
        raise BindError(
            f"{call.name}: {callable_name(fn)} cannot be lowered for ({', '.join(call.operands)})"
            f"{named}: {described(error)}"
        ) from error
    results = function_types(functions(module)["main"])[1]
    if results != call.results:
        raise BindError(
            f"{call}: {callable_name(fn)} returns ({', '.join(results)}); "
            f"it must return ({', '.join(call.results)})"
        )
    return module


def _leading_results(fn: Callable[..., Any], count: int, *operands: Any) -> Any:
    results = fn(*operands)
    return tuple(results)[:count] if isinstance(results, list | tuple) else results


def _merge(lowered: IrModule, module: IrModule, fresh: Namer, call: Signature) -> str:
    """Move the functions of `lowered` into `module` under free names. Return the entry's new
    name."""
    base = f"{call.name}.impl"
    # The new names exist in neither module, so that renaming never changes another reference.
    names = {}
    for name, function in functions(lowered).items():
        names[name] = fresh(base if name == "main" else f"{base}.{name}")
        ir().SymbolTable.replace_all_symbol_uses(name, names[name], lowered.operation)
        rename(function, names[name])
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
        raise BindError(
            f"{type_}: a JAX function needs static shapes; choose them"
            " with `lowering.stablehlo.refine`"
        )
    return jax.ShapeDtypeStruct(*static)


def _listed(keywords: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in keywords.items())
