"""Norms of flax, in both of its interfaces: `flax.linen` and `flax.nnx`.

A decomposition calls the caught function, such as `LayerNorm.__call__`, with a stand-in for the
program's module. It does not call the module itself: the program already contains the code that
subclasses, interceptors of flax and other decorators put around the function.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from composites.errors import UnsupportedCallError
from lowering.jax_programs.functions.arguments import floats, number

# The names of arrays, in the order of the entries' arguments.
_PARAMETERS = ("scale", "bias")
_AVERAGES = ("mean", "var")


@dataclass(frozen=True)
class _StandIn:
    """A stand-in for a module of flax.linen, with other arrays and the module's other
    attributes."""

    module: Any
    held: dict[str, SimpleNamespace]
    """The arrays by name, each as `value`."""

    def param(self, name: str, initializer: Any, shape: Any, *_: Any) -> Any:
        array = self.held[name].value
        if array.shape != tuple(shape):  # an error in flax
            raise UnsupportedCallError(f"{name} has another shape")
        return array

    def variable(self, collection: str, name: str, *_: Any) -> SimpleNamespace:
        return self.held[name]

    def is_initializing(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


@dataclass(frozen=True)
class _Linen:
    """A module of flax.linen without its arrays."""

    module: Any
    """The module, without a parent and a name."""

    def holding(self, arrays: dict[str, Any]) -> Any:
        """A stand-in for the module, with other arrays."""
        held = {name: SimpleNamespace(value=array) for name, array in arrays.items()}
        return _StandIn(self.module, held)

    def held(self, module: Any, name: str) -> Any:
        """An array of a module that `holding` returned."""
        return module.held[name].value


@dataclass(frozen=True)
class _Nnx:
    """A module of flax.nnx without its arrays."""

    graph: Any
    structure: Any
    """The structure of the module's state."""

    def holding(self, arrays: dict[str, Any]) -> Any:
        """A copy of the module, with other arrays."""
        import jax
        from flax import nnx

        blank = jax.tree.unflatten(self.structure, [None] * self.structure.num_leaves)
        module = nnx.merge(self.graph, blank)
        for name, array in arrays.items():
            setattr(module, name, nnx.Variable(array))
        return module

    def held(self, module: Any, name: str) -> Any:
        """An array of a module that `holding` returned."""
        return getattr(module, name)[...]


@dataclass(frozen=True)
class _Norm:
    """A norm of flax as a function of its input and arrays."""

    function: Callable[..., Any]
    """The caught function of the module, the input and the options."""
    module: _Linen | _Nnx
    names: tuple[str, ...]
    """The names of the arrays."""
    options: tuple[tuple[str, Any], ...]
    changed: tuple[str, ...]
    """The names of arrays that the call changes, which are further results."""

    def __call__(self, x: Any, *arrays: Any) -> list[Any]:
        module = self.module.holding(dict(zip(self.names, arrays, strict=True)))
        result = self.function(module, x, **dict(self.options))
        return [result, *(self.module.held(module, name) for name in self.changed)]


@dataclass(frozen=True)
class _WithMoments:
    """A layer norm or group norm with the results of PyTorch's: output, mean, and reciprocal
    standard deviation. Only the backward reads mean and deviation."""

    norm: Callable[..., list[Any]]
    axes: tuple[int, ...]
    """The axes of the input; for a group norm, of the input as `[N, …, groups, C / groups]`."""
    eps: float
    groups: int | None = None
    """The number of groups of a group norm."""

    def __call__(self, x: Any, *arrays: Any) -> Any:
        import jax.numpy as jnp
        from jax import lax

        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        if self.groups is not None:
            wide = wide.reshape(x.shape[0], -1, self.groups, x.shape[-1] // self.groups)
        mean = wide.mean(self.axes, keepdims=True)
        variance = jnp.square(wide - mean).mean(self.axes, keepdims=True)
        moments = [mean.astype(x.dtype), lax.rsqrt(variance + self.eps).astype(x.dtype)]
        if self.groups is not None:
            moments = [moment.squeeze(self.axes) for moment in moments]
        return [*self.norm(x, *arrays), *moments]


@dataclass(frozen=True)
class _WithEmptyMoments:
    """A batch norm by moving averages, with the results of PyTorch's: output, and two empty
    arrays."""

    norm: Callable[..., list[Any]]

    def __call__(self, x: Any, *arrays: Any) -> Any:
        import jax.numpy as jnp

        empty = jnp.zeros((0,), x.dtype)
        return [*self.norm(x, *arrays), empty, empty]


def layer_norm(composite: Any, self: Any, x: Any, *, mask: Any = None) -> Any:
    """`LayerNorm.__call__` of flax.linen and flax.nnx."""
    epsilon = _checked(self, x, mask)
    axes = _last_axes(self, x)
    norm, arrays = _taken_apart(composite, self, _PARAMETERS)
    return composite(
        x,
        [x.shape[axis] for axis in axes],
        arrays.get("scale"),
        arrays.get("bias"),
        epsilon,
        decomposition=_WithMoments(norm, axes, epsilon),
    )[0]


def rms_norm(composite: Any, self: Any, x: Any, mask: Any = None) -> Any:
    """`RMSNorm.__call__` of flax.linen and flax.nnx."""
    epsilon = _checked(self, x, mask)
    shape = [x.shape[axis] for axis in _last_axes(self, x)]
    norm, arrays = _taken_apart(composite, self, ("scale",))
    return composite(x, shape, arrays.get("scale"), epsilon, decomposition=norm)


def group_norm(composite: Any, self: Any, x: Any, *, mask: Any = None) -> Any:
    """`GroupNorm.__call__` of flax.linen and flax.nnx. Channels are the last dimension in flax, and
    the second dimension in the composite."""
    import math

    epsilon = _checked(self, x, mask)
    if x.ndim < 2:
        raise UnsupportedCallError("the input has no batch")
    if not all(isinstance(size, int) for size in x.shape):
        raise UnsupportedCallError("a size is symbolic, and sizes are attributes")
    if 0 in x.shape:
        raise UnsupportedCallError("the input has no elements")
    if self.reduction_axes is not None and _positive(self.reduction_axes, x) != [*range(1, x.ndim)]:
        raise UnsupportedCallError("the norm is not over all axes but the first")
    channels = x.shape[-1]
    groups = channels // self.group_size if self.group_size else self.num_groups
    norm, arrays = _taken_apart(composite, self, _PARAMETERS)
    return composite(
        x,
        arrays.get("scale"),
        arrays.get("bias"),
        x.shape[0],
        channels,
        math.prod(x.shape[1:-1]),
        groups,
        epsilon,
        decomposition=_WithMoments(norm, (1, 3), epsilon, groups),
        orders=_orders(x, arrays, further=2),
    )[0]


def instance_norm(composite: Any, self: Any, x: Any, *, mask: Any = None) -> Any:
    """`InstanceNorm.__call__` of flax.linen and flax.nnx. Channels are the last dimension in flax,
    and the second dimension in the composite."""
    epsilon = _checked(self, x, mask)
    if x.ndim < 3 or _positive(self.feature_axes, x) != [x.ndim - 1]:
        raise UnsupportedCallError("channels are not the last one of at least three dimensions")
    if 0 in x.shape:
        raise UnsupportedCallError("the input has no elements")
    norm, arrays = _taken_apart(composite, self, _PARAMETERS)
    return composite(
        x,
        arrays.get("scale"),
        arrays.get("bias"),
        eps=epsilon,
        decomposition=norm,
        orders=_orders(x, arrays, further=0),
    )


def batch_norm_by_averages(
    composite: Any, self: Any, x: Any, use_running_average: Any = None, *, mask: Any = None
) -> Any:
    """`BatchNorm.__call__` of flax.linen and flax.nnx in inference. Channels are the last dimension
    in flax, and the second dimension in the composite."""
    if not _uses_averages(self, use_running_average):
        raise UnsupportedCallError("the batch norm uses batch statistics")
    epsilon = _checked_channels(self, x, mask)
    norm, arrays = _taken_apart(
        composite, self, (*_PARAMETERS, *_AVERAGES), use_running_average=True
    )
    if isinstance(norm.module, _Nnx) and x.dtype != arrays["mean"].dtype:
        raise UnsupportedCallError("flax.nnx rounds the moving averages to another type first")
    return composite(
        x,
        arrays.get("scale"),
        arrays.get("bias"),
        arrays["mean"],
        arrays["var"],
        False,
        0.0,  # the momentum, which is for training
        epsilon,
        decomposition=_WithEmptyMoments(norm),
        has_backward=False,
        orders=_orders(x, arrays, further=2),
    )[0]


def batch_norm_in_training(
    composite: Any, self: Any, x: Any, use_running_average: Any = None, *, mask: Any = None
) -> Any:
    """`BatchNorm.__call__` of flax.linen and flax.nnx in training. The call changes the moving
    averages of the module, which are results of the composite."""
    if _uses_averages(self, use_running_average):
        raise UnsupportedCallError("the batch norm uses its moving averages")
    epsilon = _checked_channels(self, x, mask)
    if 0 in x.shape:
        raise UnsupportedCallError("an empty batch has no statistics")
    norm, arrays = _taken_apart(
        composite, self, (*_AVERAGES, *_PARAMETERS), changed=_AVERAGES, use_running_average=False
    )
    result, mean, variance = composite(
        x,
        arrays["mean"],
        arrays["var"],
        arrays.get("scale"),
        arrays.get("bias"),
        momentum=1 - number(self.momentum, "momentum"),
        eps=epsilon,
        decomposition=norm,
        orders=_orders(x, arrays, further=2),
    )
    _change(self, {"mean": mean, "var": variance})
    return result


def _uses_averages(module: Any, argument: Any) -> bool:
    """Return whether a batch norm uses its moving averages."""
    import numpy as np
    from flax import linen

    attribute = module.use_running_average
    if argument is not None and attribute is not None and isinstance(module, linen.Module):
        raise UnsupportedCallError("use_running_average is given twice, which flax refuses")
    chosen = attribute if argument is None else argument
    if not isinstance(chosen, bool | np.bool_):
        raise UnsupportedCallError("use_running_average is missing, or is not a plain boolean")
    return bool(chosen)


def _checked_channels(module: Any, x: Any, mask: Any) -> float:
    """Check that a batch norm has its channels last, and return its epsilon."""
    epsilon = _checked(module, x, mask)
    if x.ndim < 2 or _positive(module.axis, x) != [x.ndim - 1]:
        raise UnsupportedCallError("channels are not the last one of several dimensions")
    return epsilon


def _checked(module: Any, x: Any, mask: Any) -> float:
    """Check the properties that entries need of all norms, and return the norm's epsilon."""
    if mask is not None or module.axis_name is not None:
        raise UnsupportedCallError("the norm has a mask, or an axis_name")
    floats(x)
    return number(module.epsilon, "epsilon")


def _last_axes(module: Any, x: Any) -> tuple[int, ...]:
    """The axes of a norm, which must be the last axes."""
    reduced, features = (
        _positive(axes, x) for axes in (module.reduction_axes, module.feature_axes)
    )
    if reduced != features or reduced != list(range(x.ndim - len(reduced), x.ndim)):
        raise UnsupportedCallError("its axes are not the last ones")
    return tuple(reduced)


def _positive(axes: Any, x: Any) -> list[int]:
    """Axes in order, counted from the front."""
    listed = axes if isinstance(axes, list | tuple) else (axes,)
    if not all(isinstance(axis, int) and -x.ndim <= axis < x.ndim for axis in listed):
        raise UnsupportedCallError("an axis is not a dimension of the input")
    return sorted(axis % x.ndim for axis in listed)


def _orders(x: Any, arrays: dict[str, Any], *, further: int) -> Any:
    """The orders that move the last dimension of the first array and of the first result behind the
    batch. `further` is the number of further results."""
    front = (0, x.ndim - 1, *range(1, x.ndim - 1))
    return (front, *(None,) * len(arrays)), (front, *(None,) * further)


def _taken_apart(
    composite: Any,
    module: Any,
    names: tuple[str, ...],
    *,
    changed: tuple[str, ...] = (),
    **options: Any,
) -> tuple[_Norm, dict[str, Any]]:
    """The caught function of the input and of arrays, and the arrays by name.

    Args:
        names: the arrays that the function may read. Arrays that the module does not have are left
            out.
        changed: the arrays that the function changes.
        options: further arguments of the function.
    """
    import jax
    from flax import linen

    split = _split_linen if isinstance(module, linen.Module) else _split_nnx
    without, arrays = split(module, names, changed)
    if not all(isinstance(array, jax.Array) for array in arrays.values()):
        raise UnsupportedCallError("a parameter is not a plain array")
    norm = _Norm(composite.original, without, tuple(arrays), tuple(options.items()), changed)
    return norm, arrays


def _split_linen(
    module: Any, names: tuple[str, ...], changed: tuple[str, ...]
) -> tuple[_Linen, dict[str, Any]]:
    from flax import linen

    if any(getattr(type(module), m) is not getattr(linen.Module, m) for m in ("param", "variable")):
        raise UnsupportedCallError("the class overrides `param` or `variable`")
    if module.is_initializing():
        raise UnsupportedCallError("its parameters are not initialized")
    if changed and not module.is_mutable_collection(_collection(changed[0])):
        raise UnsupportedCallError("its moving averages cannot change, which flax refuses")
    used = [name for name in names if getattr(module, f"use_{name}", True)]
    if not all(module.has_variable(_collection(name), name) for name in used):
        raise UnsupportedCallError("a parameter or a moving average is missing")
    arrays = {name: module.get_variable(_collection(name), name) for name in used}
    # flax takes this from the module or from the call; the decomposition passes it in the call.
    unset = {"use_running_average": None} if hasattr(module, "use_running_average") else {}
    return _Linen(module.clone(parent=None, name=None, **unset)), arrays


def _split_nnx(
    module: Any, names: tuple[str, ...], changed: tuple[str, ...]
) -> tuple[_Nnx, dict[str, Any]]:
    import jax
    from flax import nnx
    from flax.nnx.nn.dtypes import promote_dtype

    # flax 0.12.0 has neither such functions nor such variables.
    if getattr(module, "promote_dtype", promote_dtype) is not promote_dtype:
        raise UnsupportedCallError("the program passes a function for types")
    attributes = {name: getattr(module, name) for name in names}
    variables = {name: variable for name, variable in attributes.items() if variable is not None}
    for variable in variables.values():
        if not isinstance(variable, nnx.Variable) or getattr(variable, "hijax", False):
            raise UnsupportedCallError("a parameter is not a plain flax variable")
    if len(set(map(id, variables.values()))) < len(variables):
        raise UnsupportedCallError("two of its parameters are one variable")
    graph, state = nnx.split(module)
    arrays = {name: variable[...] for name, variable in variables.items()}
    return _Nnx(graph, jax.tree.structure(state)), arrays


def _change(module: Any, arrays: dict[str, Any]) -> None:
    """Change arrays of a module in the same way as flax."""
    from flax import linen

    for name, array in arrays.items():
        if isinstance(module, linen.Module):
            module.put_variable(_collection(name), name, array)
        else:
            getattr(module, name)[...] = array


def _collection(name: str) -> str:
    """The collection of flax.linen that holds an array."""
    return "batch_stats" if name in _AVERAGES else "params"
