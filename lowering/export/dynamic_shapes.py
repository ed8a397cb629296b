"""Arguments whose dimensions vary, in the form of torch.export, and the sizes to record at.

dynamic_shapes={"x": {0: Dim("batch", max=64)}}
    =>  the dimension batch, and calls with batch = 5, 3, 7
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch
from torch.export import Dim

from composites.errors import ExportError
from composites.torch_internals import pytree
from lowering.export.dimensions import Dimension

Size = Callable[[Mapping[str, int]], int]
"""A function from the size of each dimension to a size."""


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
    """The arguments with dimensions that vary; None if no dimension varies.

    Args:
        dynamic_shapes: as in torch.export, or None. An ExportedProgram has its own.

    Raises:
        ExportError: `dynamic_shapes` does not fit the arguments.
    """
    if isinstance(module, torch.export.ExportedProgram):
        if dynamic_shapes is not None:
            raise ExportError(
                "an ExportedProgram has its dynamic shapes already; leave out dynamic_shapes, or"
                " pass the module itself"
            )
        return _program_arguments(module, args, kwargs)
    if not dynamic_shapes:
        return None
    if isinstance(dynamic_shapes, list | tuple):
        passed: Any = [*args, *kwargs.values()]
    else:
        passed = _by_name(module, args, kwargs)
    reader = _SpecReader(args, kwargs)
    reader.read("", passed, dynamic_shapes)
    return reader.result()


class _SpecReader:
    """Reads specifications of arguments, in torch.export's form."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.args, self.kwargs = tuple(args), dict(kwargs)
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        # The numbers of the leaves, by tensor: one tensor may be passed twice.
        self.numbers: dict[int, list[int]] = {}
        for number, leaf in enumerate(leaves):
            self.numbers.setdefault(id(leaf), []).append(number)
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
        """Read the specification of an argument, or of all arguments if `name` is empty."""
        if spec is None:
            return
        parts, described = _parts(value), _parts(spec)
        owner = name or "the call"
        noun = "dimension" if isinstance(value, torch.Tensor) else "item" if name else "argument"
        if parts is None:
            raise ExportError(
                f"dynamic_shapes: {owner} is a {type(value).__name__}, and cannot be described by"
                f" {spec!r}; write None for arguments that do not vary"
            )
        if described is None:
            raise ExportError(
                f"dynamic_shapes: {owner} cannot be described by {spec!r}; describe each {noun}, as"
                " in {0: torch.export.Dim('batch')} for a tensor, and write None for what does not"
                " vary"
            )
        if not isinstance(spec, Mapping) and len(described) != len(parts):
            raise ExportError(
                f"dynamic_shapes describes {len(described)} {noun}s of {owner}, which has"
                f" {len(parts)}"
            )
        for key, inner in described.items():
            index = key
            if isinstance(value, torch.Tensor) and isinstance(key, int) and key < 0:
                index += value.dim()
            if index not in parts:
                names = " or ".join(map(repr, parts))
                count = f"{len(parts)} {noun}{'' if len(parts) == 1 else 's'}"
                raise ExportError(
                    f"dynamic_shapes: {owner} has {count}, and no {noun} {key!r}; write {names}"
                )
            if isinstance(value, torch.Tensor):
                size = self._size(f"dimension {key} of {owner}", inner, parts[index])
                if size is not None:
                    for number in self.numbers[id(value)]:
                        self.sizes.setdefault(number, {})[index] = size
            else:
                self.read(f"{name}[{key!r}]" if name else self._named(key), parts[key], inner)

    def _named(self, argument: str | int) -> str:
        """The name of an argument of the call, which may be described by its position."""
        if isinstance(argument, str):
            return argument
        count = len(self.args)
        return f"argument {argument}" if argument < count else [*self.kwargs][argument - count]

    def _size(self, label: str, dim: Any, actual: int) -> Size | None:
        if dim is None or dim == Dim.STATIC:
            return None
        if isinstance(dim, int):
            if dim != actual:
                raise ExportError(f"dynamic_shapes: {label} is {actual}, not {dim}")
            return None
        if not isinstance(dim, Dim):
            raise ExportError(
                f"dynamic_shapes: {label} must be a named dimension, as in torch.export.Dim("
                f"'batch'), not {dim!r}; dimensions of one name are equal, and hints such as"
                " Dim.AUTO do not say which are"
            )
        root = getattr(dim, "root", dim)  # the root of `2*batch` is `batch`
        name = root.__name__
        first = self.dims.setdefault(name, root)
        if (first.min, first.max) != (root.min, root.max):
            raise ExportError(f"dynamic_shapes: {name} has two ranges; use one Dim for both")
        if root is dim:
            return itemgetter(name)
        derived: Any = dim
        return lambda sizes: derived.fn(sizes[name])


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """The sizes of a tensor, or the items of a list or mapping; None for other values."""
    if isinstance(value, torch.Tensor):
        return dict(enumerate(value.shape))
    if isinstance(value, Mapping):
        return value
    return dict(enumerate(value)) if isinstance(value, list | tuple) else None


def _by_name(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by the names of `forward`'s parameters. `*args` is a tuple, as in torch.export."""
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


def _bound(largest: Any) -> int | None:
    """A largest size; None for PyTorch's infinity."""
    return int(largest) if isinstance(largest, int) or largest.is_Integer else None


# ---- exported programs ----


def _program_arguments(
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
