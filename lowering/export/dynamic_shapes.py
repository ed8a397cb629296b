"""Arguments whose dimensions vary, as torch.export describes them, and at which sizes to record.

dynamic_shapes={"x": {0: Dim("batch", max=64)}}
    =>  the dimension batch, and calls with batch = 5, 3, 7
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch
from torch.export import Dim

from composites.errors import ExportError, did_you_mean
from composites.torch_internals import pytree
from lowering.export.dimensions import Dimension

Size = Callable[[Mapping[str, int]], int]
"""A size, from that of each dimension."""


@dataclass(frozen=True)
class DynamicArguments:
    """The arguments of a module, with dimensions whose size varies."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    dimensions: tuple[Dimension, ...]
    sizes: Mapping[int, Mapping[int, Size]]
    """The dimensions that vary, by the number of the tensor among all leaves of the arguments."""

    def at(self, sizes: Mapping[str, int]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Arguments and keyword arguments at one size of each dimension, without data."""
        leaves, tree = pytree.tree_flatten((self.args, dict(self.kwargs)))
        for number, varying in self.sizes.items():
            shape = list(leaves[number].shape)
            for axis, size in varying.items():
                shape[axis] = size(sizes)
            leaves[number] = torch.empty(shape, dtype=leaves[number].dtype, device="meta")
        args, kwargs = pytree.tree_unflatten(leaves, tree)
        return args, kwargs


def dynamic_arguments(
    module: torch.nn.Module | torch.export.ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> DynamicArguments | None:
    """The arguments with dimensions that vary; None if no dimension does.

    Args:
        dynamic_shapes: as torch.export takes it, or None. An ExportedProgram has its own.

    Raises:
        ExportError: it does not fit the arguments.
    """
    if isinstance(module, torch.export.ExportedProgram):
        if dynamic_shapes is not None:
            raise ExportError(
                "an ExportedProgram has its dynamic shapes already; leave out dynamic_shapes, or"
                " pass the module itself"
            )
        return _of_program(module, args, kwargs)
    if not dynamic_shapes:
        return None
    reader = _SpecReader(args, kwargs)
    for name, value, spec in _pairs(module, args, kwargs, dynamic_shapes):
        reader.read(name, value, spec)
    return reader.result()


class _SpecReader:
    """Reads specifications of arguments, in torch.export's form."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.args, self.kwargs = tuple(args), dict(kwargs)
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        # One tensor may be passed twice; each place has a number.
        self.places: dict[int, list[int]] = {}
        for number, leaf in enumerate(leaves):
            self.places.setdefault(id(leaf), []).append(number)
        self.dims: dict[str, Any] = {}
        self.sizes: dict[int, dict[int, Size]] = {}

    def result(self) -> DynamicArguments | None:
        dimensions = tuple(
            Dimension(name, max(1, int(dim.min)), _bound(dim.max))
            for name, dim in self.dims.items()
        )
        if not dimensions:
            return None
        return DynamicArguments(self.args, self.kwargs, dimensions, self.sizes)

    def read(self, name: str, value: Any, spec: Any) -> None:
        if spec is None:
            return
        if isinstance(value, torch.Tensor):
            self._tensor(name, value, spec)
            return
        if isinstance(value, Mapping) and isinstance(spec, Mapping):
            _check_keys(spec, value, name)
            for key, inner in spec.items():
                self.read(f"{name}[{key!r}]", value[key], inner)
            return
        if isinstance(value, list | tuple) and isinstance(spec, list | tuple):
            if len(value) != len(spec):
                raise ExportError(
                    f"dynamic_shapes: {name} has {len(value)} elements, and {len(spec)} are"
                    " described"
                )
            for number, (item, inner) in enumerate(zip(value, spec, strict=True)):
                self.read(f"{name}[{number}]", item, inner)
            return
        raise ExportError(
            f"dynamic_shapes: {name} is {_kind(value)}, and cannot be described by {spec!r}; write"
            " None for arguments that do not vary"
        )

    def _tensor(self, name: str, tensor: torch.Tensor, spec: Any) -> None:
        if isinstance(spec, list | tuple):
            if len(spec) != tensor.dim():
                raise ExportError(
                    f"dynamic_shapes: {name} has {tensor.dim()} dimensions, and {len(spec)} are"
                    " described"
                )
            spec = dict(enumerate(spec))
        if not isinstance(spec, Mapping):
            raise ExportError(
                f"dynamic_shapes: {name} is a tensor; describe its dimensions, as in"
                f" {{0: torch.export.Dim('batch')}}, not {spec!r}"
            )
        for axis, dim in spec.items():
            if not isinstance(axis, int) or not -tensor.dim() <= axis < tensor.dim():
                raise ExportError(
                    f"dynamic_shapes: {name} has {tensor.dim()} dimensions, and no dimension"
                    f" {axis!r}"
                )
            size = self._size(f"dimension {axis} of {name}", dim, tensor.shape[axis])
            if size is not None:
                for place in self.places[id(tensor)]:
                    self.sizes.setdefault(place, {})[axis % tensor.dim()] = size

    def _size(self, place: str, dim: Any, actual: int) -> Size | None:
        if dim is None or dim == Dim.STATIC:
            return None
        if isinstance(dim, int):
            if dim != actual:
                raise ExportError(f"dynamic_shapes: {place} is {actual}, not {dim}")
            return None
        if not isinstance(dim, Dim):
            raise ExportError(
                f"dynamic_shapes: {place} must be a named dimension, as in torch.export.Dim("
                f"'batch'), not {dim!r}; dimensions of one name are equal, and hints such as"
                " Dim.AUTO do not say which are"
            )
        root = getattr(dim, "root", dim)  # of `2*batch` it is `batch`
        name = root.__name__
        known = self.dims.setdefault(name, root)
        if (known.min, known.max) != (root.min, root.max):
            raise ExportError(f"dynamic_shapes: {name} has two ranges; use one Dim for both")
        if root is dim:
            return itemgetter(name)
        derived: Any = dim
        return lambda sizes: derived.fn(sizes[name])


def _pairs(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], spec: Any
) -> Iterable[tuple[str, Any, Any]]:
    """Each argument with its name and its part of `dynamic_shapes`."""
    if isinstance(spec, list | tuple):
        passed = [*args, *kwargs.values()]
        if len(spec) != len(passed):
            raise ExportError(
                f"dynamic_shapes describes {len(spec)} arguments, and the call has {len(passed)}"
            )
        names = [*(f"argument {n}" for n in range(len(args))), *kwargs]
        return list(zip(names, passed, spec, strict=True))
    if not isinstance(spec, Mapping):
        raise ExportError(
            "dynamic_shapes must be a mapping from names of arguments, such as {'x': {0:"
            f" torch.export.Dim('batch')}}}}, or a tuple with one item for each, not {spec!r}"
        )
    values = _by_name(module, args, kwargs)
    _check_keys(spec, values, "the call")
    return [(name, values[name], inner) for name, inner in spec.items()]


def _by_name(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by the names that `forward` gives them. `*args` are a tuple, as in torch.export."""
    bound = inspect.signature(module.forward).bind_partial(*args, **kwargs)
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
            named.setdefault(name, value)
        else:
            named[name] = value
    return named


def _check_keys(spec: Mapping[Any, Any], known: Mapping[Any, Any], owner: str) -> None:
    for key in spec:
        if key not in known:
            names = [name for name in known if isinstance(name, str)]
            hint = did_you_mean(key, names) if isinstance(key, str) else ""
            raise ExportError(f"dynamic_shapes: {owner} has no argument {key!r}{hint}")


def _bound(largest: Any) -> int | None:
    """A largest size; None for PyTorch's infinity."""
    return int(largest) if isinstance(largest, int) or largest.is_Integer else None


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


# ---- exported programs ----


def _of_program(
    program: torch.export.ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> DynamicArguments | None:
    """The varying dimensions of an exported program, with the names that PyTorch gave them."""
    leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
    shapes = {
        node.name: node.meta["val"].shape
        for node in program.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    }
    names = program.graph_signature.user_inputs
    if not any(isinstance(size, torch.SymInt) for s in shapes.values() for size in s):
        return None
    if len(names) != len(leaves):
        raise ExportError(f"the ExportedProgram takes {len(names)} arguments, got {len(leaves)}")
    ranges = {str(symbol): bounds for symbol, bounds in program.range_constraints.items()}
    varying: dict[int, dict[int, Size]] = {}
    dimensions: dict[str, Dimension] = {}
    for number, name in enumerate(names):
        for axis, size in enumerate(shapes.get(name, ()) if isinstance(name, str) else ()):
            if not isinstance(size, torch.SymInt):
                continue
            symbol = str(size)
            if symbol not in ranges:
                raise ExportError(
                    f"dimension {axis} of {name} is {symbol} in the ExportedProgram, which is not a"
                    " dimension of its own; pass the module itself, with dynamic_shapes"
                )
            varying.setdefault(number, {})[axis] = itemgetter(symbol)
            lower, upper = ranges[symbol].lower, ranges[symbol].upper
            dimensions[symbol] = Dimension(symbol, max(1, int(lower)), _bound(upper))
    return DynamicArguments(tuple(args), dict(kwargs), tuple(dimensions.values()), varying)
