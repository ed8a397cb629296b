"""A function of tensors as a graph of aten operators. Nothing is computed."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from threading import RLock
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.nn.attention import SDPBackend, sdpa_kernel

from composites import torch_internals
from composites.torch_internals import pytree
from lowering.frontends.aten_in_jax import (  # noqa: F401  (they register their rules)
    convolutions,
    creation,
    distances,
    elementwise,
    factorizations,
    fourier,
    indexing,
    linear_algebra,
    linear_systems,
    losses,
    norms,
    pooling,
    products,
    reductions,
    resampling,
    shapes,
    special,
    spectral,
)
from lowering.frontends.aten_in_jax.dtypes import torch_dtype
from lowering.frontends.aten_in_jax.table import RULES, NoRuleError

_ONE_THREAD = RLock()
"""Held while a function is recorded: what PyTorch changes for that belongs to the process, such as
methods of modules and the choice of kernels for attention. JAX traces nothing meanwhile, so that no
thread waits for JAX with it."""
_PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)


def record(
    function: Callable[..., Any],
    operands: Sequence[Any | None],
    *,
    decompose: bool = True,
    kept: Any = None,
) -> torch.fx.GraphModule:
    """Record a function of tensors. The inputs of the graph are the operands that are present, and
    its outputs tensors in one list.

    Args:
        function: returns tensors in any nesting; those that are None are left out.
        operands: arrays, or other things with shape and dtype; None for an absent one. The function
            gets tensors in their places, and None.
        decompose: whether operators are decomposed into those that have rules. Operators that
            PyTorch decomposes above autograd are decomposed in any case.
        kept: an operator that is not decomposed, whatever PyTorch does.
    """
    table = dict(_table(decompose))
    whole = None
    if kept is not None and torch_internals.decomposition_of(kept) is not None:
        whole = table[kept] = torch_internals.whole_operator(kept)
    present = [operand for operand in operands if operand is not None]

    def of_present(*tensors: torch.Tensor) -> list[torch.Tensor]:
        rest = iter(tensors)
        results = function(*(None if operand is None else next(rest) for operand in operands))
        return [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]

    symbols = None if all(map(_is_static, present)) else ShapeEnv()
    mode = torch_internals.fake_mode(symbols)
    with (
        _ONE_THREAD,
        mode,
        sdpa_kernel(SDPBackend.MATH),
        torch_internals.without_logged_failures(),
    ):
        inputs = _inputs(present, mode)
        module = make_fx(of_present, decomposition_table=table)(*inputs)
        if any(map(_writes, module.graph.nodes)):
            pure = torch.func.functionalize(module, remove="mutations_and_views")
            module = make_fx(pure, decomposition_table=table)(*inputs)
            _drop_writes_to_inputs(module.graph)
    _check_sizes(symbols)
    for node in module.graph.nodes:
        if whole is not None and node.target == whole:
            node.target = kept
    _reshape_strided(module.graph)
    module.graph.eliminate_dead_code()
    return module


def is_symbolic(type_: Any) -> bool:
    """Return whether a size of an array is a symbol, as in `jax.export` with symbolic shapes."""
    return not _is_static(type_)


def _is_static(type_: Any) -> bool:
    return all(isinstance(size, int) for size in type_.shape)


def _inputs(present: Sequence[Any], mode: Any) -> list[torch.Tensor]:
    """Tensors without values. Sizes that are one symbol in JAX are one symbol in PyTorch, with a
    prime number as its example."""
    if all(map(_is_static, present)):
        return [torch.empty(tuple(x.shape), dtype=torch_dtype(x.dtype)) for x in present]
    numbers: dict[Any, int] = {}
    inputs = []
    for x in present:
        sizes = [
            size if isinstance(size, int) else numbers.setdefault(size, _PRIMES[len(numbers)])
            for size in x.shape
        ]
        kinds = [DimDynamic.STATIC if isinstance(n, int) else DimDynamic.DUCK for n in x.shape]
        with torch_internals.without_modes():
            tensor = torch.empty(sizes, dtype=torch_dtype(x.dtype))
        context: Any = StatelessSymbolicContext(dynamic_sizes=kinds)
        inputs.append(mode.from_tensor(tensor, symbolic_context=context))
    return inputs


def _check_sizes(symbols: ShapeEnv | None) -> None:
    """Check that a graph with symbols holds for all their values.

    Raises:
        NoRuleError: PyTorch took a branch that depends on one.
    """
    guards = [] if symbols is None else symbols.guards
    for guard in guards:
        written = str(guard.expr)
        if not written.startswith("Ne(") and written != "True":
            raise NoRuleError(
                f"the decomposition depends on a size that is a symbol here ({written}); write this"
                " size as a number"
            )


@cache
def _table(decompose: bool) -> Mapping[Any, Callable[..., Any]]:
    if not decompose:
        return {}
    of_pytorch = torch_internals.all_decompositions()
    known = {**of_pytorch, **norms.OF_ENTRIES, **linear_algebra.DECOMPOSITIONS}
    return {operator: function for operator, function in known.items() if operator not in RULES}


def _reshape_strided(graph: torch.fx.Graph) -> None:
    """Write views by strides as reshapes if they only change the shape. Arrays have no strides.

    Decompositions of PyTorch (2.9: native_group_norm) make such views of contiguous tensors.
    """
    for node in graph.nodes:
        if node.target != torch.ops.aten.as_strided.default:
            continue
        before, after = node.args[0].meta["val"], node.meta["val"]
        same = before.numel() == after.numel() and after.storage_offset() == 0
        if same and before.is_contiguous() and after.is_contiguous():
            node.target = torch.ops.aten.reshape.default
            node.args = node.args[:2]


def _drop_writes_to_inputs(graph: torch.fx.Graph) -> None:
    """Remove the copies that functionalization adds for its caller. Operands of composites stay."""
    for node in reversed(graph.nodes):
        if _writes(node) and not node.users:
            graph.erase_node(node)


def _writes(node: torch.fx.Node) -> bool:
    return torch_internals.writes_to_an_argument(node.target)
