"""Norms of flax, in both of its interfaces: `flax.linen` and `flax.nnx`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from composites.errors import UnsupportedCallError

# In the order of the entries' arguments.
_PARAMETERS = ("scale", "bias")
_AVERAGES = ("mean", "var")


@dataclass(frozen=True)
class _OfLinen:
    """A module of flax.linen as a function of its input and parameters."""

    module: Any
    """Without a parent and a name."""
    parameters: tuple[str, ...]
    averages: tuple[str, ...] = ()
    """Given after the parameters."""

    def __call__(self, x: Any, *arrays: Any) -> Any:
        count = len(self.parameters)
        variables = {"params": dict(zip(self.parameters, arrays[:count], strict=True))}
        if not self.averages:
            return self.module.apply(variables, x)
        variables["batch_stats"] = dict(zip(self.averages, arrays[count:], strict=True))
        return self.module.apply(variables, x, use_running_average=True)


@dataclass(frozen=True)
class _OfNnx:
    """A module of flax.nnx as a function of its input and parameters."""

    graph: Any
    structure: Any
    """Of its state, whose arrays are the parameters."""
    places: tuple[int, ...]
    """For each array of the state, its place among the parameters."""
    by_averages: bool = False

    def __call__(self, x: Any, *arrays: Any) -> Any:
        import jax
        from flax import nnx

        state = jax.tree.unflatten(self.structure, [arrays[place] for place in self.places])
        keywords = {"use_running_average": True} if self.by_averages else {}
        return nnx.merge(self.graph, state)(x, **keywords)


@dataclass(frozen=True)
class _WithMoments:
    """A layer norm whose results are those of PyTorch's: output, mean, and reciprocal standard
    deviation. Nothing but the backward takes the last two."""

    norm: Any
    axes: tuple[int, ...]
    eps: float

    def __call__(self, x: Any, *arrays: Any) -> Any:
        import jax.numpy as jnp
        from jax import lax

        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        mean = wide.mean(self.axes, keepdims=True)
        variance = jnp.square(wide - mean).mean(self.axes, keepdims=True)
        scale = lax.rsqrt(variance + self.eps)
        return [self.norm(x, *arrays), mean.astype(x.dtype), scale.astype(x.dtype)]


@dataclass(frozen=True)
class _OfGroups:
    """A group norm whose results are those of PyTorch's: output, mean, and reciprocal standard
    deviation. Nothing but the backward takes the last two."""

    norm: Any
    groups: int
    eps: float

    def __call__(self, x: Any, *arrays: Any) -> Any:
        import jax.numpy as jnp
        from jax import lax

        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        grouped = wide.reshape(x.shape[0], -1, self.groups, x.shape[-1] // self.groups)
        mean = grouped.mean((1, 3))
        variance = jnp.square(grouped - mean[:, None, :, None]).mean((1, 3))
        scale = lax.rsqrt(variance + self.eps)
        return [self.norm(x, *arrays), mean.astype(x.dtype), scale.astype(x.dtype)]


@dataclass(frozen=True)
class _OfAverages:
    """A batch norm by its moving averages, whose results are those of PyTorch's: output, and two
    empty arrays."""

    norm: Any

    def __call__(self, x: Any, *arrays: Any) -> Any:
        import jax.numpy as jnp

        empty = jnp.zeros((0,), x.dtype)
        return [self.norm(x, *arrays), empty, empty]


def layer_norm(composite: Any, self: Any, x: Any, *, mask: Any = None) -> Any:
    """`LayerNorm.__call__` of flax.linen and flax.nnx."""
    axes = _axes(self, x, mask)
    norm, parameters = _taken_apart(self)
    return composite(
        x,
        [x.shape[axis] for axis in axes],
        parameters.get("scale"),
        parameters.get("bias"),
        float(self.epsilon),
        decomposition=_WithMoments(norm, axes, float(self.epsilon)),
    )[0]


def rms_norm(composite: Any, self: Any, x: Any, mask: Any = None) -> Any:
    """`RMSNorm.__call__` of flax.linen and flax.nnx."""
    axes = _axes(self, x, mask)
    norm, parameters = _taken_apart(self)
    shape = [x.shape[axis] for axis in axes]
    return composite(x, shape, parameters.get("scale"), float(self.epsilon), decomposition=norm)


def group_norm(composite: Any, self: Any, x: Any, *, mask: Any = None) -> Any:
    """`GroupNorm.__call__` of flax.linen and flax.nnx. Channels are the last dimension there, and
    the second one in the composite."""
    import math

    _check(self, x, mask)
    if x.ndim < 2:
        raise UnsupportedCallError("the input has no batch")
    if not all(isinstance(size, int) for size in x.shape):
        raise UnsupportedCallError("a size is a symbol, and sizes are attributes")
    if 0 in x.shape:
        raise UnsupportedCallError("the input has no elements")
    if self.reduction_axes is not None and _positive(self.reduction_axes, x) != [*range(1, x.ndim)]:
        raise UnsupportedCallError("its axes are not all but the first one")
    channels = x.shape[-1]
    groups = channels // self.group_size if self.group_size else self.num_groups
    norm, parameters = _taken_apart(self)
    front = (0, x.ndim - 1, *range(1, x.ndim - 1))
    return composite(
        x,
        parameters.get("scale"),
        parameters.get("bias"),
        x.shape[0],
        channels,
        math.prod(x.shape[1:-1]),
        groups,
        float(self.epsilon),
        decomposition=_OfGroups(norm, groups, float(self.epsilon)),
        orders=((front, *(None for _ in parameters)), (front, None, None)),
    )[0]


def batch_norm_by_averages(
    composite: Any, self: Any, x: Any, use_running_average: Any = None, *, mask: Any = None
) -> Any:
    """`BatchNorm.__call__` of flax.linen and flax.nnx in inference. Channels are the last
    dimension there, and the second one in the composite."""
    from flax import linen

    of_module = self.use_running_average
    if use_running_average is None:
        use_running_average = of_module
    elif of_module is not None and isinstance(self, linen.Module):
        raise UnsupportedCallError("use_running_average is given twice, which flax refuses")
    if not use_running_average:
        raise UnsupportedCallError("it uses the statistics of the batch")
    _check(self, x, mask)
    if x.ndim < 2 or _positive(self.axis, x) != [x.ndim - 1]:
        raise UnsupportedCallError("channels are not the last one of several dimensions")
    norm, arrays = _taken_apart(self, _AVERAGES)
    if isinstance(norm, _OfNnx) and x.dtype != arrays["mean"].dtype:
        raise UnsupportedCallError("flax.nnx rounds the moving averages to another type first")
    front = (0, x.ndim - 1, *range(1, x.ndim - 1))
    return composite(
        x,
        arrays.get("scale"),
        arrays.get("bias"),
        arrays["mean"],
        arrays["var"],
        False,
        0.0,  # the momentum, which is for training
        float(self.epsilon),
        decomposition=_OfAverages(norm),
        has_backward=False,
        orders=((front, *(None for _ in arrays)), (front, None, None)),
    )[0]


def _axes(module: Any, x: Any, mask: Any) -> tuple[int, ...]:
    """The axes of a norm, which are the last ones."""
    _check(module, x, mask)
    reduced, features = (
        _positive(axes, x) for axes in (module.reduction_axes, module.feature_axes)
    )
    if reduced != features or reduced != list(range(x.ndim - len(reduced), x.ndim)):
        raise UnsupportedCallError("its axes are not the last ones")
    return tuple(reduced)


def _check(module: Any, x: Any, mask: Any) -> None:
    """Check what all norms have in common."""
    import jax.numpy as jnp

    if mask is not None or module.axis_name is not None:
        raise UnsupportedCallError("it has a mask, or the name of an axis")
    if not hasattr(x, "ndim") or not jnp.issubdtype(x.dtype, jnp.floating):
        raise UnsupportedCallError("the input is no array of floats")


def _positive(axes: Any, x: Any) -> list[int]:
    """Axes in order, counted from the front."""
    return sorted(axis % x.ndim for axis in (axes if isinstance(axes, list | tuple) else (axes,)))


def _taken_apart(module: Any, averages: tuple[str, ...] = ()) -> tuple[Any, dict[str, Any]]:
    """A module as a function of its input, parameters and moving averages, and these by name."""
    from flax import linen

    take = _of_linen if isinstance(module, linen.Module) else _of_nnx
    return take(module, averages)


def _of_linen(module: Any, averages: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    if module.is_initializing():
        raise UnsupportedCallError("its parameters are not initialized")
    found = {
        name: module.get_variable("params", name)
        for name in _PARAMETERS
        if module.has_variable("params", name)
    }
    parameters = tuple(found)
    for name in averages:
        if not module.has_variable("batch_stats", name):
            raise UnsupportedCallError("it has no moving averages")
        found[name] = module.get_variable("batch_stats", name)
    pure = module.clone(parent=None, name=None)
    if averages:  # as of the call, and not of the module
        pure = pure.clone(use_running_average=None)
    return _OfLinen(pure, parameters, averages), _arrays(found)


def _of_nnx(module: Any, averages: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    import jax
    from flax import nnx

    graph, state = nnx.split(module)
    flat, structure = jax.tree_util.tree_flatten_with_path(state)
    names = (*_PARAMETERS, *averages)
    by_name = {
        name: (number, leaf)
        for number, (path, leaf) in enumerate(flat)
        for name in names
        if f"'{name}'" in jax.tree_util.keystr(path)
    }
    found = {name: by_name[name] for name in names if name in by_name}
    if len(found) != len(flat):
        raise UnsupportedCallError("the module has more than its parameters")
    order = [number for number, _ in found.values()]
    places = tuple(order.index(number) for number in range(len(flat)))
    arrays = {name: leaf for name, (_, leaf) in found.items()}
    return _OfNnx(graph, structure, places, bool(averages)), _arrays(arrays)


def _arrays(found: dict[str, Any]) -> dict[str, Any]:
    import jax

    if not all(isinstance(value, jax.Array) for value in found.values()):
        raise UnsupportedCallError("a parameter is no plain array")
    return found
