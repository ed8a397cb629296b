"""From nodes of a graph to a function of JAX arrays, which runs the rules of
`lowering.frontends.aten_in_jax`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import compress
from operator import getitem
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from composites.torch_internals import pytree
from lowering.frontends.aten_in_jax.dtypes import jax_dtype, torch_dtype
from lowering.frontends.aten_in_jax.table import LINEAR_ALGEBRA, find_rule
from lowering.frontends.errors import ForeignDataError
from lowering.frontends.fx import sources
from lowering.frontends.fx.capture import TracedTensor
from lowering.frontends.fx.regions import Subgraph, reached_nodes
from lowering.frontends.fx.sizes import in_jax, jax_symbols
from lowering.frontends.jax.all_platforms import for_all_platforms
from lowering.frontends.jax.composite_call import on_selected

_LITERAL = 16
"""The largest number of elements of a constant that is written as numbers."""


def array_function(
    outputs: Sequence[TracedTensor],
    inputs: Sequence[TracedTensor],
    *,
    located: bool = False,
    for_all: bool = True,
) -> tuple[Callable[..., list[Any]], list[int], Sequence[torch.fx.Node]]:
    """A function of JAX arrays that computes outputs; the positions of the inputs that it reads,
    which are its arguments; and its nodes.

    Args:
        located: trace each node in a JAX scope of the node's number.
        for_all: lower linear algebra for all platforms. It then has no derivatives.

    Raises:
        ForeignDataError: the function reads an input of another graph.
    """
    positions = {tensor.node: position for position, tensor in enumerate(inputs)}
    reached = reached_nodes([tensor.node for tensor in outputs], positions)
    read = sorted(positions[node] for node in reached if node in positions)
    nodes = [node for node in reached if node not in positions]
    every = list(_with_inner(nodes))
    if any(node.op == "placeholder" for node in nodes):
        raise ForeignDataError(
            "the module computes with a tensor of another export; keep no tensors that a module"
            " computes while it is exported"
        )
    operands = [inputs[position].node for position in read]
    numbers = {node: number for number, node in enumerate(every)} if located else {}
    evaluation = _Evaluation(numbers, jax_symbols(), for_all)

    def function(*arrays: Any) -> list[Any]:
        values = dict(zip(operands, arrays, strict=True))
        # PyTorch's operators promote ranks, whatever the program allows for its own.
        with jax.numpy_rank_promotion("allow"):
            evaluation.add(nodes, values)
        return [values[tensor.node] for tensor in outputs]

    return function, read, every


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """The evaluation of nodes on arrays."""

    numbers: Mapping[torch.fx.Node, int]
    """The numbers of scopes, see `lowering.frontends.fx.sources`; none for nodes without a
    scope."""
    symbols: Mapping[str, Any]
    """JAX's symbols, by the names of PyTorch's symbols."""
    for_all: bool
    """See `array_function`."""

    def add(self, nodes: Sequence[torch.fx.Node], values: dict[torch.fx.Node, Any]) -> None:
        """Add the values of nodes to `values`, which has the values of their operands."""
        for node in nodes:
            if node.op == "get_attr":
                values[node] = _constant(node.meta["constant"])
                continue
            keywords = torch.fx.node.map_arg(node.kwargs, values.__getitem__)
            arguments = [
                self._function(argument, values)
                if isinstance(argument, Subgraph)
                else torch.fx.node.map_arg(argument, values.__getitem__)
                for argument in node.args
            ]
            with sources.scope(self.numbers[node]) if node in self.numbers else nullcontext():
                values[node] = self._result(
                    node,
                    in_jax(tuple(arguments), self.symbols),
                    in_jax(dict(keywords), self.symbols),
                )

    def _function(
        self, body: Subgraph, enclosing: Mapping[torch.fx.Node, Any]
    ) -> Callable[..., list[Any]]:
        """A body as a function of arrays, which closes over values of the enclosing region."""

        def function(*arrays: Any) -> list[Any]:
            values = dict(zip(body.inputs, arrays, strict=True))
            values.update((inner, enclosing[outer]) for outer, inner in body.lifted.items())
            self.add(body.nodes, values)
            # Not `astype`: it keeps the types of Python numbers, which loops do not carry.
            return [
                jax.lax.convert_element_type(values[node], values[node].dtype)
                for node in body.results
            ]

        return function

    def _result(self, node: torch.fx.Node, arguments: Any, keywords: dict[str, Any]) -> Any:
        """The arrays that a node returns. Linear algebra of a program is lowered for all platforms:
        the program may run on a platform without LAPACK."""
        described = node.meta["val"]
        if node.target not in LINEAR_ALGEBRA or not self.for_all:
            return _run_rule(node.target, described, arguments, keywords)
        leaves, tree = jax.tree.flatten((arguments, keywords))
        is_array = [isinstance(leaf, jax.Array) for leaf in leaves]

        def run(*filled: Any) -> Any:
            positional, named = jax.tree.unflatten(tree, filled)
            return _run_rule(node.target, described, positional, named)

        return for_all_platforms(on_selected(run, leaves, is_array))(*compress(leaves, is_array))


def _with_inner(nodes: Sequence[torch.fx.Node]) -> Iterator[torch.fx.Node]:
    """Nodes, and the nodes of their bodies."""
    for node in nodes:
        yield node
        for argument in node.args:
            if isinstance(argument, Subgraph):
                yield from _with_inner(argument.nodes)


def _run_rule(target: Any, described: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """The results of a node for arrays.

    Args:
        described: the results on PyTorch's device `meta`.
    """
    if target is getitem:
        return target(*arguments)
    dtypes = pytree.tree_map(_dtype, described)
    if hasattr(target, "overloadpacket") and _are_empty(described):
        blank = pytree.tree_map_only(torch.Tensor, lambda x: jnp.zeros(x.shape), described)
        return _cast(blank, dtypes)
    scalar = _is_scalar_with_dims(target, arguments, keywords)
    if scalar:
        arguments, keywords = jax.tree.map(_as_vector, (arguments, keywords))
    results = _cast(find_rule(target)(dtypes, *arguments, **keywords), dtypes)
    return _shaped(results, described) if scalar else results


def _are_empty(described: Any) -> bool:
    """Return whether all results are tensors without elements, which rules do not treat."""
    tensors = [x for x in pytree.tree_leaves(described) if isinstance(x, torch.Tensor)]
    empty = [all(isinstance(n, int) for n in x.shape) and 0 in x.shape for x in tensors]
    return bool(empty) and all(empty)


_DIMS = frozenset(["dim", "dims", "dim0", "dim1", "dimension"])
"""Names of arguments that are dimensions of the first operand."""


def _is_scalar_with_dims(
    target: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> bool:
    """Return whether a call names dimensions of an operand without dimensions. PyTorch treats the
    operand as a vector of one element, which the rules then receive."""
    first = arguments[0] if arguments else None
    if getattr(first, "ndim", None) != 0:
        return False
    schema = getattr(target, "_schema", None)
    for position, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.name in _DIMS:
            at = arguments[position] if position < len(arguments) else argument.default_value
            if keywords.get(argument.name, at) not in (None, [], ()):
                return True
    return False


def _as_vector(value: Any) -> Any:
    return value.reshape(1) if getattr(value, "ndim", None) == 0 else value


def _shaped(results: Any, described: Any) -> Any:
    if isinstance(described, tuple | list):
        return [_shaped(x, item) for x, item in zip(results, described, strict=True)]
    return results.reshape(tuple(described.shape))


def _dtype(value: Any) -> Any:
    return jax_dtype(value.dtype) if isinstance(value, torch.Tensor) else value


def _cast(results: Any, dtypes: Any) -> Any:
    if isinstance(dtypes, tuple | list):
        return [_cast(x, dtype) for x, dtype in zip(results, dtypes, strict=True)]
    if results is None or results.dtype == dtypes:
        return results
    return results.astype(dtypes)


def _constant(tensor: torch.Tensor) -> Any:
    dtype = jax_dtype(tensor.dtype)
    tensor = tensor.to(torch_dtype(dtype))  # 32 bits if JAX has no 64-bit types
    if tensor.numel() <= _LITERAL:
        return jnp.asarray(np.array(tensor.tolist(), dtype=dtype).reshape(tuple(tensor.shape)))
    bits = tensor.reshape(-1).view(torch.uint8).numpy()
    return jnp.asarray(bits.view(dtype).reshape(tuple(tensor.shape)))
