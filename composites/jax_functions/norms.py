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
    in_training: bool = False
    """Whether the averages change. They are further results then."""

    def __call__(self, x: Any, *arrays: Any) -> Any:
        count = len(self.parameters)
        variables = {"params": dict(zip(self.parameters, arrays[:count], strict=True))}
        if not self.averages:
            return self.module.apply(variables, x)
        variables["batch_stats"] = dict(zip(self.averages, arrays[count:], strict=True))
        if not self.in_training:
            return self.module.apply(variables, x, use_running_average=True)
        result, changed = self.module.apply(
            variables, x, use_running_average=False, mutable=["batch_stats"]
        )
        return [result, *(changed["batch_stats"][name] for name in self.averages)]


@dataclass(frozen=True)
class _OfNnx:
    """A module of flax.nnx as a function of its input and parameters."""

    graph: Any
    structure: Any
    """Of its state, whose arrays are the parameters."""
    places: tuple[int, ...]
    """For each array of the state, its place among the parameters."""
    averages: tuple[str, ...] = ()
    in_training: bool = False

    def __call__(self, x: Any, *arrays: Any) -> Any:
        import jax
        from flax import nnx

        state = jax.tree.unflatten(self.structure, [arrays[place] for place in self.places])
        module = nnx.merge(self.graph, state)
        if not self.averages:
            return module(x)
        result = module(x, use_running_average=not self.in_training)
        if not self.in_training:
            return result
        changed = dict(zip(self.places, jax.tree.leaves(nnx.state(module)), strict=True))
        first = len(changed) - len(self.averages)
        return [result, *(changed[place] for place in range(first, len(changed)))]


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


@dataclass(frozen=True)
class _OfBatch:
    """A batch norm in training as a function of arrays in the entry's order, in which the moving
    averages come before the parameters."""

    norm: Any

    def __call__(self, x: Any, mean: Any, variance: Any, *parameters: Any) -> Any:
        return self.norm(x, *parameters, mean, variance)


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
    front = _channels_in_front(x)
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


def instance_norm(composite: Any, self: Any, x: Any, *, mask: Any = None) -> Any:
    """`InstanceNorm.__call__` of flax.linen and flax.nnx. Channels are the last dimension there,
    and the second one in the composite."""
    _check(self, x, mask)
    if x.ndim < 3 or _positive(self.feature_axes, x) != [x.ndim - 1]:
        raise UnsupportedCallError("channels are not the last one of at least three dimensions")
    if 0 in x.shape:
        raise UnsupportedCallError("the input has no elements")
    norm, parameters = _taken_apart(self)
    front = _channels_in_front(x)
    return composite(
        x,
        parameters.get("scale"),
        parameters.get("bias"),
        eps=float(self.epsilon),
        decomposition=norm,
        orders=((front, *(None for _ in parameters)), (front,)),
    )


def batch_norm_by_averages(
    composite: Any, self: Any, x: Any, use_running_average: Any = None, *, mask: Any = None
) -> Any:
    """`BatchNorm.__call__` of flax.linen and flax.nnx in inference. Channels are the last
    dimension there, and the second one in the composite."""
    if not _uses_averages(self, use_running_average):
        raise UnsupportedCallError("it uses the statistics of the batch")
    _check_channels(self, x, mask)
    norm, arrays = _taken_apart(self, _AVERAGES)
    if isinstance(norm, _OfNnx) and x.dtype != arrays["mean"].dtype:
        raise UnsupportedCallError("flax.nnx rounds the moving averages to another type first")
    front = _channels_in_front(x)
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


def batch_norm_in_training(
    composite: Any, self: Any, x: Any, use_running_average: Any = None, *, mask: Any = None
) -> Any:
    """`BatchNorm.__call__` of flax.linen and flax.nnx in training. It changes the moving averages
    of the module, which the composite has as results."""
    if _uses_averages(self, use_running_average):
        raise UnsupportedCallError("it uses the moving averages")
    _check_channels(self, x, mask)
    if 0 in x.shape:
        raise UnsupportedCallError("an empty batch has no statistics")
    norm, arrays = _taken_apart(self, _AVERAGES, in_training=True)
    parameters = {name: array for name, array in arrays.items() if name in _PARAMETERS}
    front = _channels_in_front(x)
    result, mean, variance = composite(
        x,
        arrays["mean"],
        arrays["var"],
        parameters.get("scale"),
        parameters.get("bias"),
        momentum=1 - float(self.momentum),
        eps=float(self.epsilon),
        decomposition=_OfBatch(norm),
        orders=((front, None, None, *(None for _ in parameters)), (front, None, None)),
    )
    _change_averages(self, {"mean": mean, "var": variance})
    return result


def _uses_averages(module: Any, of_call: Any) -> bool:
    """Whether a batch norm uses its moving averages."""
    from flax import linen

    of_module = module.use_running_average
    if of_call is not None and of_module is not None and isinstance(module, linen.Module):
        raise UnsupportedCallError("use_running_average is given twice, which flax refuses")
    if of_call is None and of_module is None:
        raise UnsupportedCallError("use_running_average is not given, which flax refuses")
    return bool(of_module if of_call is None else of_call)


def _change_averages(module: Any, arrays: dict[str, Any]) -> None:
    """Change the moving averages of a batch norm, as flax does in training."""
    from flax import linen

    if isinstance(module, linen.Module):
        for name, array in arrays.items():
            module.put_variable("batch_stats", name, array)
        return
    import jax
    from flax import nnx

    def changed(path: Any, _: Any) -> Any:
        written = jax.tree_util.keystr(path)
        return next(array for name, array in arrays.items() if f"'{name}'" in written)

    state = nnx.state(module, nnx.BatchStat)
    nnx.update(module, jax.tree_util.tree_map_with_path(changed, state))


def _check_channels(module: Any, x: Any, mask: Any) -> None:
    """Check that a batch norm has its channels last."""
    _check(module, x, mask)
    if x.ndim < 2 or _positive(module.axis, x) != [x.ndim - 1]:
        raise UnsupportedCallError("channels are not the last one of several dimensions")


def _channels_in_front(x: Any) -> tuple[int, ...]:
    """The order of dimensions that puts the last one behind the batch."""
    return (0, x.ndim - 1, *range(1, x.ndim - 1))


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


def _taken_apart(
    module: Any, averages: tuple[str, ...] = (), *, in_training: bool = False
) -> tuple[Any, dict[str, Any]]:
    """A module as a function of its input, parameters and moving averages, and these by name."""
    from flax import linen

    take = _of_linen if isinstance(module, linen.Module) else _of_nnx
    return take(module, averages, in_training)


def _of_linen(
    module: Any, averages: tuple[str, ...], in_training: bool
) -> tuple[Any, dict[str, Any]]:
    if module.is_initializing():
        raise UnsupportedCallError("its parameters are not initialized")
    if in_training and not module.is_mutable_collection("batch_stats"):
        raise UnsupportedCallError("its moving averages cannot change, which flax refuses")
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
    return _OfLinen(pure, parameters, averages, in_training), _arrays(found)


def _of_nnx(
    module: Any, averages: tuple[str, ...], in_training: bool
) -> tuple[Any, dict[str, Any]]:
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
    return _OfNnx(graph, structure, places, averages, in_training), _arrays(arrays)


def _arrays(found: dict[str, Any]) -> dict[str, Any]:
    import jax

    if not all(isinstance(value, jax.Array) for value in found.values()):
        raise UnsupportedCallError("a parameter is no plain array")
    return found
