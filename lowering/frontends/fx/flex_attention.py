"""`torch.nn.attention.flex_attention`: attention whose scores and mask are functions of positions.

A call becomes `composites.operators.language_attention.attention` if that entry is on and the
graphs of the functions have a form that it computes: a causal mask, a window and
`softcap * tanh(score / softcap)` become attributes; the rest of the mask, and numbers added to the
scores, become its operand. Graphs are compared, and functions are never run. All other calls
compute the functions for each pair of a query and a key, as eager PyTorch does.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx

from composites import torch_internals
from composites.contexts import with_value
from composites.operators import language_attention
from composites.operators.opmath import opmath_type
from lowering.frontends.fx import AUTOGRAD_KEY, DEVICE_TYPE, FUNCTIONALIZATION_KEY, capture
from lowering.frontends.fx.autocast import AUTOCAST_KEY, autocast
from lowering.frontends.fx.regions import reached_nodes
from lowering.frontends.fx.tensors import FxTensors

_WHOLE: ContextVar[bool] = ContextVar("_WHOLE", default=False)


def kept_whole(whole: bool) -> AbstractContextManager[None]:
    """A context in which calls that are not composites stay as they are, for another compiler."""
    return with_value(_WHOLE, whole)


@cache
def offer_flex_attention() -> None:
    """Register the kernel, for the life of the process."""
    for key in (AUTOGRAD_KEY, FUNCTIONALIZATION_KEY, AUTOCAST_KEY):
        torch_internals.add_higher_order_kernel(
            "flex_attention", key, flex_attention, lambda tensor: tensor.device.type == DEVICE_TYPE
        )


def _zeros_and_scatter(shape: Sequence[int], indices: Sequence[Tensor], vals: Tensor) -> Tensor:
    """The gradient of a tensor that a function reads at positions."""
    return vals.new_zeros(tuple(shape)).index_put(tuple(indices), vals, accumulate=True)


torch_internals.offer_flex_attention(FxTensors.owns)  # before Dynamo traces a call
capture.OWN[torch.ops.flex_lib.zeros_and_scatter.default] = _zeros_and_scatter


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: dict[str, Any],
    score_mod_other_buffers: tuple[Any, ...] = (),
    mask_mod_other_buffers: tuple[Any, ...] = (),
) -> Any:
    """See torch.ops.higher_order.flex_attention: the values, and, for each row, the logarithm of
    the sum of exponentials and the largest score, in units of log(2)."""
    mask_mod = block_mask[-1]
    is_on = hasattr(language_attention.attention, "__wrapped__")
    score = _traced(score_mod, scores=True) if is_on else None
    mask = _traced(mask_mod, scores=False) if is_on else None
    rules = _rules(score, mask, query.shape[2], key.shape[2]) if score and mask else None
    if rules is None and _WHOLE.get():
        return NotImplemented
    buffers = (score_mod_other_buffers, mask_mod_other_buffers)
    key, value = (tensor.expand(query.shape[0], -1, -1, -1) for tensor in (key, value))
    with autocast(None):
        scores = _scores(query, key, scale, score_mod, mask_mod, *buffers)
        is_empty = (scores == -math.inf).all(-1, keepdim=True)
        finite = torch.where(is_empty, 0.0, scores)  # softmax has no gradient of an empty row
        if score and mask and rules:
            attended = _attention(query, key, value, scale, rules, score, mask, *buffers)
        else:
            weights = torch.where(is_empty, 0.0, finite.softmax(-1)).to(query.dtype)
            attended = weights @ value.repeat_interleave(query.shape[1] // value.shape[1], 1)
        sums = torch.where(is_empty, -math.inf, finite.logsumexp(-1, keepdim=True)).squeeze(-1)
        unit = 1.0 if kernel_options.get("BACKEND") == "FLASH" else math.log(2)
        return attended, sums / unit, scores.detach().amax(-1) / unit


def _scores(
    query: Tensor,
    key: Tensor,
    scale: float,
    score_mod: Callable[..., Tensor],
    mask_mod: Callable[..., Tensor],
    score_buffers: Any,
    mask_buffers: Any,
) -> Tensor:
    """The operand of the softmax, `[N, Hq, L, S]`."""
    repeated = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = (query @ repeated.mT).to(opmath_type(query.dtype)) * scale
    positions = _positions(scores.shape, query)
    modified = torch_internals.on_positions(score_mod, positions, score_buffers, scores)
    visible = torch_internals.on_positions(mask_mod, positions, mask_buffers)
    return torch.where(visible, modified, -math.inf)


def _positions(sizes: Sequence[int], like: Tensor) -> list[Tensor]:
    return [torch.arange(size, device=like.device) for size in sizes]


@dataclass(frozen=True, slots=True)
class _Rules:
    """The meaning of the functions of a call."""

    is_causal: bool
    window: int | None
    softcap: float | None
    is_biased: bool
    """True if numbers are added to the scores."""
    rest: tuple[fx.Node, ...]
    """Further conditions on a query and a key."""
    has_empty_rows: bool
    """True if a query may attend to no key. Its values are zeros; `attention` returns the mean."""


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    rules: _Rules,
    score: fx.GraphModule,
    mask: fx.GraphModule,
    score_buffers: Any,
    mask_buffers: Any,
) -> Tensor:
    def visible(module: fx.GraphModule) -> Tensor:
        positions = _positions(_read_sizes(module, 0, sizes), query)
        return torch_internals.on_positions(module, positions, mask_buffers)

    sizes = (*query.shape[:3], key.shape[2])
    operand = visible(_only(mask, rules.rest)) if rules.rest else None
    takes_part = visible(mask)
    if rules.is_biased:
        read = _read_sizes(score, 1, sizes)
        zeros = query.new_zeros(read, dtype=opmath_type(query.dtype))
        positions = _positions(read, query)
        bias = torch_internals.on_positions(score, positions, score_buffers, zeros)
        is_finite = bias > -math.inf
        takes_part = takes_part & is_finite
        kept = is_finite if operand is None else operand & is_finite
        # Half of the lowest number: its sum with that of a causal mask must be finite.
        operand = torch.where(kept, bias, torch.finfo(bias.dtype).min / 2)
    attended = language_attention.attention(
        query,
        key,
        value,
        operand,
        scale=scale,
        is_causal=rules.is_causal,
        window=rules.window,
        softcap=rules.softcap,
    )
    if not rules.has_empty_rows:
        return attended
    return torch.where(takes_part.any(-1, keepdim=True), attended, 0.0)


def _read_sizes(module: fx.GraphModule, first: int, sizes: Sequence[int]) -> list[int]:
    """The sizes of a function's values; 1 for dimensions on whose position it does not depend."""
    placeholders = module.graph.find_nodes(op="placeholder")[first : first + 4]
    read = [{_name(user) for user in node.users} - _WITHOUT_VALUES for node in placeholders]
    return [size if users else 1 for users, size in zip(read, sizes, strict=True)]


_WITHOUT_VALUES = {"new_ones", "new_zeros", "getattr"}
"""Calls that read no value of a position."""


# ---- graphs of the functions ----


class _ModuleTracer(fx.Tracer):
    """Traces a function that reads parameters of a module, which is not traced."""

    def create_arg(self, a: Any) -> Any:
        """See `torch.fx.Tracer`."""
        return super().create_arg(a.view_as(a) if isinstance(a, torch.nn.Parameter) else a)


def _traced(function: Callable[..., Any], *, scores: bool) -> fx.GraphModule | None:
    """The graph of a function of scores or a mask; None if its Python code reads values."""

    def modify_score(score: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        return function(score, b, h, q, kv)

    def is_visible(b: Any, h: Any, q: Any, kv: Any) -> Any:
        return function(b, h, q, kv)

    if isinstance(function, fx.GraphModule):
        return function
    tracer = _ModuleTracer()
    try:
        graph = tracer.trace(modify_score if scores else is_visible)
    except Exception:  # the user's function may do anything with its arguments
        return None
    return fx.GraphModule(tracer.root, graph)


def _only(mask: fx.GraphModule, terms: Sequence[fx.Node]) -> fx.GraphModule:
    """The graph of a mask with only `terms` of its conditions."""
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    graph.graph_copy(mask.graph, copies)
    kept = [copies[term] for term in terms]
    graph.output(reduce(lambda a, b: graph.call_function(operator.and_, (a, b)), kept))
    graph.eliminate_dead_code()
    return fx.GraphModule(mask, graph)


def _rules(score: fx.GraphModule, mask: fx.GraphModule, length: Any, keys: Any) -> _Rules | None:
    """The meaning of graphs; None if `attention` cannot express it."""
    bounded = _bounded(_result(score), score.graph.find_nodes(op="placeholder")[0])
    if bounded is None:
        return None
    offset = keys - length
    row, column = mask.graph.find_nodes(op="placeholder")[2:4]
    positions = {row: (1, 0, 0), column: (0, 1, 0)} if isinstance(offset, int) else {}
    causal, windows, rest = [], dict[fx.Node, int](), []
    for term in _terms(_result(mask)):
        q, kv, constant = _inequality(term, positions) or (0, 0, 0)
        window = constant + offset + 1
        if (q, kv, constant) == (1, -1, offset):
            causal.append(term)
        elif (q, kv) == (-1, 1) and window > 0:
            windows[term] = window
        else:
            rest.append(term)
    if not causal:  # `attention` has no other windows
        rest, windows = [*rest, *windows], {}
    return _Rules(
        is_causal=bool(causal),
        window=min(windows.values(), default=None),
        softcap=bounded[0],
        is_biased=bounded[1],
        rest=tuple(rest),
        has_empty_rows=bool(rest) or bounded[1] or (bool(causal) and offset < 0),
    )


def _result(module: fx.GraphModule) -> Any:
    return module.graph.output_node().args[0]


def _call(value: Any) -> tuple[str, Sequence[Any]]:
    """The name of a function or method that a node calls, and its arguments."""
    if not isinstance(value, fx.Node) or value.op not in ("call_function", "call_method"):
        return "", ()
    return _name(value), () if value.kwargs else value.args


def _name(node: fx.Node) -> str:
    target: Any = node.target
    name: str = target if isinstance(target, str) else getattr(target, "__name__", "")
    return name.partition(".")[0].strip("_")


def _terms(value: Any) -> Iterator[Any]:
    """The conditions that all have to hold."""
    name, arguments = _call(value)
    if name in ("and", "logical_and", "bitwise_and") and len(arguments) == 2:
        for argument in arguments:
            yield from _terms(argument)
    elif name == "to" and len(arguments) == 2 and _is_device(arguments[1]):
        yield from _terms(arguments[0])
    elif name != "new_ones":  # true everywhere
        yield value


def _is_device(value: Any) -> bool:
    return isinstance(value, torch.device) or _call(value)[1][1:] == ("device",)


_Form: TypeAlias = tuple[int, int, int]
"""A sum: the factors of the query's position and of the key's position, and a constant."""


def _inequality(value: Any, positions: Mapping[fx.Node, _Form]) -> _Form | None:
    """The sum that is at least 0 if and only if a comparison of positions holds."""
    name, arguments = _call(value)
    if name not in ("ge", "gt", "le", "lt") or len(arguments) != 2:
        return None
    a, b = (_form(argument, positions) for argument in arguments)
    if a is None or b is None:
        return None
    larger, smaller = (a, b) if name in ("ge", "gt") else (b, a)
    return _sum(larger, smaller, -1, 0 if name in ("ge", "le") else -1)


def _form(value: Any, positions: Mapping[fx.Node, _Form]) -> _Form | None:
    if type(value) is int:
        return (0, 0, value)
    if value in positions:
        return positions[value]
    name, arguments = _call(value)
    if name not in ("add", "sub") or len(arguments) != 2:
        return None
    a, b = (_form(argument, positions) for argument in arguments)
    return None if a is None or b is None else _sum(a, b, 1 if name == "add" else -1)


def _sum(a: _Form, b: _Form, sign: int, further: int = 0) -> _Form:
    q, kv, constant = (x + sign * y for x, y in zip(a, b, strict=True))
    return q, kv, constant + further


def _bounded(value: Any, score: fx.Node) -> tuple[float | None, bool] | None:
    """The bound of scores, and True if numbers are added to them; None for other functions."""
    if value is score:
        return None, False
    name, arguments = _call(value)
    if len(arguments) != 2:
        return None
    softcap = _softcap(name, arguments, score)
    if softcap is not None:
        return softcap, False
    first, second = (_reads(argument, score) for argument in arguments)
    if first == second or name not in ("add", "sub") or (name == "sub" and second):
        return None
    inner = _bounded(arguments[0 if first else 1], score)
    return None if inner is None else (inner[0], True)


def _softcap(name: str, arguments: Sequence[Any], score: fx.Node) -> float | None:
    """The bound of `softcap * tanh(score / softcap)`, in either order."""
    numbers = [argument for argument in arguments if isinstance(argument, int | float)]
    if name != "mul" or len(numbers) != 1:
        return None
    bounded = arguments[1] if arguments[0] is numbers[0] else arguments[0]
    called, inner = _call(bounded)
    if called != "tanh" or len(inner) != 1:
        return None
    divided, quotient = _call(inner[0])
    is_same = divided in ("div", "truediv") and list(quotient) == [score, numbers[0]]
    return float(numbers[0]) if is_same else None


def _reads(value: Any, score: fx.Node) -> bool:
    return isinstance(value, fx.Node) and score in reached_nodes([value], ())
