"""Private interfaces of JAX, as in jax 0.7.1, 0.10.2 and 0.12.0.

`jax.lax.composite` is public, but it traces its function again for each call, so that a program has
one decomposition per call. The primitive behind it takes a traced function that calls can share.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from threading import Lock
from typing import Any

import jax
from jax._src.config import trace_context
from jax._src.core import NamedAxisEffect, evaluate_shape, jaxprs_in_params
from jax._src.effects import ordered_effects
from jax._src.export.shape_poly import dimension_size_p
from jax._src.interpreters import ad as differentiation
from jax._src.interpreters import partial_eval
from jax._src.interpreters.mlir import (
    ShapePolyLoweringState,
    _platform_specific_lowerings,
    register_attribute_handler,
)
from jax._src.lax.lax import _composite_lowering, composite_p
from jax._src.lax.linalg import eigh_p as eigenvalues_p
from jax._src.lib import _jax, xla_client
from jax._src.sharding_impls import parse_flatten_op_sharding
from jax.export import is_symbolic_dim
from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import mlir
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from composites.errors import UnsupportedCallError

__all__ = ["eigenvalues_p"]

# The parameter that holds the traced function.
_FUNCTION = (
    "jaxpr" if "jaxpr" in inspect.signature(_composite_lowering).parameters else "call_jaxpr"
)


@dataclass(frozen=True, slots=True)
class _AttributeText:
    """The value of an attribute, which MLIR's parser reads."""

    text: str


register_attribute_handler(_AttributeText, lambda value: mlir.ir.Attribute.parse(value.text))


def bind_composite(
    name: str,
    version: int,
    attributes: Sequence[tuple[str, str]],
    function: Any,
    operands: Sequence[Any],
) -> list[Any]:
    """Insert a composite into the program that is traced.

    Args:
        attributes: names, and values as MLIR text.
        function: the decomposition as a closed jaxpr without constants. Composites whose function
            is the same object share a decomposition in the module.
        operands: arrays of the types that the function takes.
    """
    leaf = jax.tree.structure(0)
    flat = tuple((key, (_AttributeText(text),), leaf) for key, text in attributes)
    results: list[Any] = composite_p.bind(
        *operands, name=name, version=version, attributes=flat, **{_FUNCTION: function}
    )
    return results


def run_equation(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """The results of one operation of a traced function, for other operands."""
    parameters = equation.primitive.get_bind_params(equation.params)
    functions: Sequence[Any] = ()
    if isinstance(parameters, tuple):  # before jax 0.10
        functions, parameters = parameters
    results = equation.primitive.bind(*functions, *operands, **parameters)
    return list(results) if equation.primitive.multiple_results else [results]


def results_read(jaxpr: Any) -> list[bool]:
    """For each operand of a closed jaxpr, True if a result or an effect depends on its value."""
    used = partial_eval.dce_jaxpr(jaxpr.jaxpr, [True] * len(jaxpr.jaxpr.outvars))[1]
    return list(used)


def without_unused(jaxpr: Any) -> Any:
    """A closed jaxpr without operations on which neither a result nor an effect depends."""
    all_results = [True] * len(jaxpr.jaxpr.outvars)
    used = partial_eval.dce_jaxpr(jaxpr.jaxpr, all_results, instantiate=True)[0]
    return jaxpr.replace(jaxpr=used)


def settings_of_traces() -> Any:
    """All of JAX's settings on which the trace of a function depends, as a comparable value."""
    return trace_context()


def axes_read(jaxpr: Any) -> list[str]:
    """The names of axes, such as those of `jax.shard_map` and `jax.vmap`, that operations of a
    closed jaxpr read."""
    return sorted(str(e.name) for e in jaxpr.effects if isinstance(e, NamedAxisEffect))


def has_ordered_effects(jaxpr: Any) -> bool:
    """Return whether a closed jaxpr has effects that happen in the program's order, such as an
    ordered `jax.debug.print`."""
    return any(map(ordered_effects.contains, jaxpr.effects))


def has_own_type(array: Any) -> bool:
    """Return whether an array has a type that neither a number nor an explicit sharding changes."""
    return not jax.typeof(array).weak_type and not is_sharded(array)


def is_sharded(array: Any) -> bool:
    """Return whether an array's sharding is part of its type (`jax.sharding.AxisType.Explicit`)."""
    return any(axes is not None for axes in jax.typeof(array).sharding.spec)


KNOWS_SUMS = "backward_pass3" in differentiation.backward_pass.__code__.co_names
"""True if `define_pull_back` has an effect. jax 0.7.1 has a backward pass with sums too, which
`jax.vjp` does not use."""


def define_pull_back(primitive: Any, rule: Callable[..., None]) -> None:
    """Define how gradients are pulled back through a primitive that is linear in some operands.

    Args:
        rule: takes the gradients of the results, and the operands, with a sum of gradients in place
            of each linear operand. It adds to these sums.
    """
    if KNOWS_SUMS:
        differentiation.fancy_transposes[primitive] = rule


def is_empty(gradients: Any) -> bool:
    """Return whether nothing has been added to a sum yet."""
    return type(getattr(gradients, "val", None)) is differentiation.Zero


def add_one_by_one(
    function: Callable[..., Any], types: Sequence[Any], sums: Sequence[Any], grads: Sequence[Any]
) -> None:
    """Pull gradients back through a linear function, operation by operation, as JAX does for the
    program's own operations. Sums of floats depend on the order."""
    traced = jax.make_jaxpr(function)(*types)
    differentiation.backward_pass3(traced.jaxpr, True, traced.consts, sums, grads)


def transposed(
    function: Callable[..., Any], types: Sequence[Any], grads: Sequence[Any]
) -> list[Any]:
    """The gradients of the operands of a linear function. `jax.linear_transpose` does the same for
    functions whose results are all of floats, outside of `jax.shard_map`."""
    traced = jax.make_jaxpr(function)(*types)
    operands = [differentiation.UndefinedPrimal(type_) for type_ in types]
    gradients = differentiation.backward_pass(traced.jaxpr, True, traced.consts, operands, grads)
    return list(gradients)


def without_symbols(context: Any, jaxpr: Any, *, symbolic_too: bool) -> tuple[Any, Any] | None:
    """The context for lowering a composite, and the decomposition to lower in it; None if the call
    cannot be a composite.

    JAX (0.7.1 to 0.12) passes symbolic sizes to each function of a module as further operands, so
    that no composite has the operands of its decomposition. The returned decomposition computes the
    sizes from the shapes of its operands. A module for several platforms has the platform's index
    as a symbol. A decomposition that is lowered alike for all platforms gets a context without this
    symbol, with separate functions.
    """
    module = context.module_context
    symbols = module.shape_poly_state.dim_vars
    if not symbols:
        return context, jaxpr
    if symbols[0] == "_platform_index" and _differs(jaxpr.jaxpr, module):
        return None
    if symbols != ("_platform_index",) and not symbolic_too:
        return None
    own = _with_sizes(jaxpr)
    if own is None:
        return None
    state = ShapePolyLoweringState((), None)
    free = _kept(module, "composites: without symbols", shape_poly_state=state)
    return context.replace(module_context=free, dim_var_values=()), own


def _kept(module: Any, key: str, **changes: Any) -> Any:
    """The changed context of a module, whose functions are shared by the calls of the module. It is
    kept with the functions of the module, which end with it."""
    kept = module.cached_primitive_lowerings
    if key not in kept:
        kept[key] = _separate(module, **changes)
    return kept[key]


def _separate(module: Any, **changes: Any) -> Any:
    """The changed context of a module, with separate functions."""
    return module.replace(lowering_cache={}, cached_primitive_lowerings={}, **changes)


@lru_cache(maxsize=1024)
def _with_sizes(jaxpr: Any) -> Any | None:
    """A decomposition that computes its symbolic sizes from its operands; None if a symbol is not
    itself the size of a dimension, as `b` is in `f32[b, 2*s]`."""
    symbols = symbolic_sizes(jaxpr)
    if not symbols:
        return jaxpr
    positions = {
        str(size): (position, axis)
        for position, aval in enumerate(jaxpr.in_avals)
        for axis, size in enumerate(aval.shape)
    }
    if not symbols <= positions.keys():
        return None
    sizes = tuple((name, *positions[name]) for name in sorted(symbols))
    types = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals]
    return jax.make_jaxpr(partial(_sized_p.bind, jaxpr=jaxpr, sizes=sizes))(*types)


def sized(function: Callable[..., Any], types: Sequence[Any]) -> Callable[..., Any]:
    """A function that computes its symbolic sizes from its operands.

    Raises:
        UnsupportedCallError: a symbol is not itself the size of a dimension.
    """
    traced = jax.make_jaxpr(function)(*types)
    own = _with_sizes(traced)
    if own is None:
        alone = {str(size) for type_ in types for size in type_.shape}
        raise UnsupportedCallError(
            "dynamic_shapes: the program reads no argument with the dimension"
            f" {min(symbolic_sizes(traced) - alone)}, so it cannot know its size; keep it fixed"
        )
    return jaxpr_as_fun(own)  # type: ignore[no-any-return]


_sized_p = Primitive("sized_decomposition")
"""A decomposition, with the operand and the dimension that has each of its symbolic sizes."""
_sized_p.multiple_results = True


def _lower_sized(context: Any, *operands: Any, jaxpr: Any, sizes: Any) -> Any:
    def values(*arrays: Any) -> list[Any]:
        return [dimension_size_p.bind(arrays[n], dimension=axis) for _, n, axis in sizes]

    numbers = mlir.lower_fun(values, multiple_results=True)(context, *operands)
    state = ShapePolyLoweringState(tuple(name for name, *_ in sizes), None)
    module = _separate(context.module_context, shape_poly_state=state)
    inner = context.replace(module_context=module, dim_var_values=tuple(numbers), tokens_out=None)
    return mlir.lower_fun(jaxpr_as_fun(jaxpr), multiple_results=True)(inner, *operands)


def _with_lowered(*operands: Any, jaxpr: Any, sizes: Any) -> Any:
    """The call with a decomposition of operations that JAX can lower, unlike some of JAX 0.12."""
    return _sized_p.bind(*operands, jaxpr=partial_eval.lower_jaxpr2(jaxpr), sizes=sizes)


_sized_p.to_lojax = _with_lowered
_sized_p.def_abstract_eval(lambda *operands, jaxpr, sizes: jaxpr.out_avals)
mlir.register_lowering(_sized_p, _lower_sized)


def has_own_sizes(jaxpr: Any) -> bool:
    """Return whether each symbolic size of a closed jaxpr is itself the size of a dimension of an
    operand."""
    return _with_sizes(jaxpr) is not None


def results_for(jaxpr: Any, shapes: Sequence[Sequence[Any]]) -> list[Any]:
    """The types of the results of a closed jaxpr for operands of `shapes`, which may replace
    symbols in the jaxpr's own types.

    Args:
        shapes: the shapes of the first operands, without the generator's state, which comes last.
    """
    sizes = [
        (size, actual)
        for aval, shape in zip(jaxpr.in_avals, shapes, strict=False)
        for size, actual in zip(aval.shape, shape, strict=True)
    ]
    if all(size == actual for size, actual in sizes):
        return list(jaxpr.out_avals)
    symbols = {str(size): actual for size, actual in sizes if is_symbolic_dim(size)}
    return [
        aval.update(shape=tuple(evaluate_shape(aval.shape, symbols, *symbols.values())))
        for aval in jaxpr.out_avals
    ]


def symbolic_sizes(jaxpr: Any) -> set[str]:
    """The symbolic sizes on which a closed jaxpr depends."""
    symbols: set[str] = set()

    def add(value: Any) -> None:
        match value:
            case tuple() | list():
                for item in value:
                    add(item)
            case ClosedJaxpr() | Jaxpr():
                inner = getattr(value, "jaxpr", value)
                add([atom.aval for atom in (*inner.invars, *inner.outvars)])
                for equation in inner.eqns:
                    add([atom.aval for atom in equation.outvars])
                    add(list(equation.params.values()))
            case _ if is_symbolic_dim(value):
                symbols.update(value._get_vars())
            case _:
                add(getattr(value, "shape", ()))

    add(jaxpr)
    return symbols


def _differs(jaxpr: Any, module: Any) -> bool:
    """Return whether an operation of a jaxpr is lowered differently for a platform of a module."""
    rules = [_platform_specific_lowerings[platform] for platform in module.platforms]
    return any(
        equation.primitive.name == "platform_index"
        or any(equation.primitive in platform_rules for platform_rules in rules)
        or any(_differs(inner, module) for inner in jaxprs_in_params(equation.params))
        for equation in jaxpr.eqns
    )


def vary_alike(operands: Sequence[Any]) -> list[Any]:
    """Make operands inside `jax.shard_map` vary over all axes of the mesh over which any of them
    varies. The gradient of an operand that did not is then summed over the axes, as in JAX's own
    operations."""
    axes = [_axes(jax.typeof(operand)) for operand in operands]
    every = frozenset().union(*axes)
    return [
        x if own == every else _vary(x, tuple(sorted(every - own)))
        for x, own in zip(operands, axes, strict=True)
    ]


def varying_as(avals: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Types of results that vary over the same axes of the mesh as the operands."""
    first = next((o for o in operands if _axes(o)), None)
    if first is None:
        return list(avals)
    mesh = first.sharding.mesh
    return [
        first.update(
            shape=aval.shape,
            dtype=aval.dtype,
            weak_type=False,
            sharding=NamedSharding(mesh, PartitionSpec(*[None] * len(aval.shape))),
        )
        for aval in avals
    ]


def _axes(type_: Any) -> frozenset[Any]:
    """The axes of a mesh over which an array varies."""
    if hasattr(type_, "vma"):
        return frozenset(type_.vma)
    manual = getattr(type_, "manual_axis_type", None)
    return frozenset() if manual is None else frozenset(manual.varying)


def _vary(array: Any, axes: tuple[Any, ...]) -> Any:
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(array, axes, to="varying")
    return jax.lax.pvary(array, axes)


def gspmd_text(mesh: Sequence[tuple[str, int]], spec: Sequence[Sequence[str]]) -> str:
    """A division among the devices of a mesh, as the text that XLA's partitioner GSPMD reads.

    Args:
        mesh: names and sizes of the mesh's axes.
        spec: for each dimension, the axes along which it is divided.
    """
    return str(_division(mesh, spec))


def gspmd_spec(
    mesh: Sequence[tuple[str, int]], text: str, rank: int
) -> tuple[tuple[str, ...], ...] | None:
    """The axes of each dimension in a division, from GSPMD's text; None if the division does not
    use the axes of `mesh`."""
    names, sizes = zip(*mesh, strict=True)
    try:
        division = xla_client.HloSharding.from_string(text)
        (parts,) = parse_flatten_op_sharding(division, AbstractMesh(sizes, names))
    except (AssertionError, KeyError, RuntimeError, ValueError):  # another kind, or other devices
        return None
    written = ((part,) if isinstance(part, str) else tuple(part or ()) for part in parts)
    spec = (*written, *[()] * (rank - len(parts)))
    return spec if len(spec) == rank and _division(mesh, spec) == division else None


def _division(mesh: Sequence[tuple[str, int]], spec: Sequence[Sequence[str]]) -> Any:
    names, sizes = zip(*mesh, strict=True)
    parts = PartitionSpec(*(tuple(axes) or None for axes in spec))
    return NamedSharding(AbstractMesh(sizes, names), parts)._to_xla_hlo_sharding(len(spec))


def define_for_platform(platform: str, primitive: Any, rule: Callable[..., Any]) -> None:
    """Define the lowering of an operation for a platform, even if JAX does not support it."""
    _platform_specific_lowerings[platform][primitive] = replace(
        _platform_specific_lowerings["tpu"][primitive], rule=rule
    )


def lower_for_tpu(context: Any, primitive: Any, *operands: Any, **parameters: Any) -> Any:
    """Lower an operation as JAX lowers it for TPUs, and return its results."""
    rule = _platform_specific_lowerings["tpu"][primitive].rule
    return rule(context, *operands, **parameters)


def for_platform(context: Any, platform: str) -> Any:
    """The context for lowering operations for a platform other than the module's."""
    module = _kept(context.module_context, platform, platforms=(platform,))
    return context.replace(module_context=module)


def array_from_dlpack(capsule: Any, device: Any) -> Any:
    """An array that shares the memory and the dtype of a DLPack capsule, even if 64-bit types are
    off. `jax.dlpack.from_dlpack` takes 100 us for this, and this function 7 us (jax 0.12).

    The array has no traceback, which would hold the code of all frames. Dynamo keeps a program as
    long as the code that it wrote for it, and the program keeps the arrays of its parameters.
    """
    with _TRACEBACKS:
        enabled = _jax.tracebacks_enabled()
        _jax.set_tracebacks_enabled(False)
        try:
            return _jax.dlpack_managed_tensor_to_buffer(capsule, device, None)
        finally:
            _jax.set_tracebacks_enabled(enabled)


_TRACEBACKS = Lock()
"""Held while tracebacks are off, a setting that applies to all threads."""


array_to_dlpack: Callable[[Any], Any] = partial(_jax.buffer_to_dlpack_managed_tensor, stream=None)
"""Returns a DLPack capsule that shares the memory of an array that is ready (jax 0.12)."""

free_released_arrays: Callable[[], None] = _jax.collect_garbage
"""Frees arrays whose tensors PyTorch has released. Without this call, XLA keeps their memory until
its next execution, or until Python collects garbage (jaxlib 0.12)."""
