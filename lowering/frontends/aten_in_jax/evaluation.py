"""Running a recorded graph on JAX arrays."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import torch

from composites.torch_internals import pytree
from lowering.frontends.aten_in_jax.dtypes import jax_dtype
from lowering.frontends.aten_in_jax.table import NoRuleError, rule_of
from lowering.frontends.jax.composite_call import constant

Claim = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Takes an operator and its arguments, and returns its results, or NotImplemented."""


def evaluate(
    recorded: torch.fx.GraphModule,
    arrays: Sequence[Any],
    *,
    claim: Claim | None = None,
) -> list[Any]:
    """Run a function of tensors that `record` has recorded.

    Args:
        arrays: the operands that are present.
        claim: computes the results of an operator first, if it can.

    Raises:
        NoRuleError: an operator has no rule.
    """
    inputs = iter(arrays)
    values: dict[torch.fx.Node, Any] = {}
    # PyTorch's operators promote ranks, whatever the program allows for its own.
    with jax.numpy_rank_promotion("allow"):
        for node in recorded.graph.nodes:
            arguments = torch.fx.node.map_arg(node.args, values.__getitem__)
            keywords = torch.fx.node.map_arg(node.kwargs, values.__getitem__)
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "get_attr":
                values[node] = _constant(getattr(recorded, node.target))
            elif node.op == "call_function":
                described = node.meta.get("val")
                values[node] = result_of(node.target, described, arguments, dict(keywords), claim)
    return list(arguments[0])  # of the last node, which is the output


def result_of(
    target: Any,
    described: Any,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    claim: Claim | None = None,
) -> Any:
    """The results of a node for arrays.

    Args:
        described: its results as PyTorch describes them.
        claim: see `evaluate`.

    Raises:
        NoRuleError: the operator has no rule.
    """
    if getattr(target, "__module__", None) == "_operator":  # also arithmetic of sizes
        return target(*arguments)
    if target is torch.ops.aten.sym_size.int:
        return arguments[0].shape[arguments[1]]
    if claim is not None:
        claimed = claim(target, arguments, keywords)
        if claimed is not NotImplemented:
            return claimed
    dtypes = pytree.tree_map(_dtype, described)
    scalar = _is_scalar_with_dims(target, arguments, keywords)
    if scalar:
        arguments, keywords = jax.tree.map(_as_vector, (arguments, keywords))
    results = _cast(rule_of(target)(dtypes, *arguments, **keywords), dtypes)
    return _shaped(results, described) if scalar else results


_DIMS = frozenset(["dim", "dims", "dim0", "dim1", "dimension"])
"""Names of arguments that are dimensions of the first operand."""


def _is_scalar_with_dims(
    target: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> bool:
    """Return whether a call names dimensions of an operand that has none. PyTorch takes it for a
    vector of one element then, and the rules do not need to know."""
    first = arguments[0] if arguments else None
    if getattr(first, "ndim", None) != 0:
        return False
    schema = getattr(target, "_schema", None)
    for place, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.name in _DIMS:
            at = arguments[place] if place < len(arguments) else argument.default_value
            if keywords.get(argument.name, at) not in (None, [], ()):
                return True
    return False


def _as_vector(value: Any) -> Any:
    return value.reshape(1) if getattr(value, "ndim", None) == 0 else value


def _shaped(results: Any, described: Any) -> Any:
    if isinstance(described, tuple | list):
        return [_shaped(x, one) for x, one in zip(results, described, strict=True)]
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
    """A constant of the graph.

    Raises:
        NoRuleError: it is large.
    """
    try:
        return constant(tensor.tolist()).astype(jax_dtype(tensor.dtype))
    except ValueError as error:
        raise NoRuleError(str(error)) from error
