"""Graphs that Dynamo traced once for all sizes, compiled for each size that occurs."""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

import torch

from composites import torch_internals

Function = Callable[..., Any]


def varies(value: Any) -> bool:
    """Return whether an input of Dynamo's graph is a symbol, or a tensor with a symbolic size."""
    if isinstance(value, torch.Tensor):
        numbers = (*value.shape, *value.stride(), value.storage_offset())
        return any(isinstance(number, torch.SymInt) for number in numbers)
    return isinstance(value, torch.SymInt)


class FunctionsOfSizes:
    """The compiled functions of one graph."""

    def __init__(
        self,
        compile_graph: Callable[[Sequence[Any]], Function],
        inputs: Sequence[Any],
        *,
        numbers: Collection[int] = (),
        otherwise: Function,
    ) -> None:
        """
        Args:
            compile_graph: compiles the graph for inputs of certain sizes.
            inputs: the inputs of Dynamo's trace. Sizes that vary are symbols.
            numbers: the positions of inputs whose values are constants of a compiled function.
            otherwise: runs the graph after more than `MOST_VALUES` values of these inputs.
        """
        self._compile = torch.compiler.disable(compile_graph)
        self._numbers = sorted(numbers)
        self._varying = [
            n
            for n, value in enumerate(inputs)
            if n not in numbers and not isinstance(value, torch.nn.Parameter)
        ]
        self._otherwise = otherwise
        self._functions: dict[Hashable, Function] = {}
        self._values: set[tuple[str, ...]] = set()

    def __call__(self, *arguments: Any) -> Any:
        """Run the graph. It is compiled for sizes with which it has not run."""
        # As text, in which zeros have a sign, and NaN is equal to itself.
        values = tuple(float(arguments[position]).hex() for position in self._numbers)
        if values not in self._values:
            if len(self._values) == MOST_VALUES:
                return self._otherwise(*arguments)
            self._values.add(values)
        key = (values, self._sizes(arguments))
        function = self._functions.get(key)
        if function is None:
            with torch_internals.tracing():
                function = self._functions[key] = self._compile(arguments)
        return function(*arguments)

    def _sizes(self, arguments: Sequence[Any]) -> Hashable:
        """The sizes of the arguments, and the owners of memory that they share: a graph that writes
        to an argument is compiled for its aliases."""
        key: list[Hashable] = []
        owners: dict[int, int] = {}
        for position in self._varying:
            value = arguments[position]
            if isinstance(value, torch.Tensor):
                owner = owners.setdefault(torch_internals.storage_key(value), position)
                offset = value.storage_offset() if owner != position else 0
                key += (value.shape, value.stride(), owner, offset)
            else:
                key.append(value)
        return tuple(key)


MOST_VALUES = 8
"""The number of values of a changing number for which a graph is compiled: Dynamo's own limit of
compilations per frame."""
