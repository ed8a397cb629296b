"""PyTorch's operators of control flow: `torch.cond`, `while_loop`, `scan` and `map`.

They become `jax.lax.cond`, `while_loop` and `scan`. A gradient is another call of the same
operator, whose function recomputes the values that the gradient needs; the gradient of a `scan`
runs from its last step to its first. Gradients can therefore be differentiated too.

torch.cond(…) -> the operator's kernel -> functions as graphs -> a node with these graphs
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import compress, islice
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import torch
from torch import Tensor

from composites import torch_internals
from composites.torch_internals import pytree
from lowering.frontends.aten_in_jax.table import RULES
from lowering.frontends.errors import ControlFlowError
from lowering.frontends.fx import AUTOGRAD_KEY, FUNCTIONALIZATION_KEY, capture
from lowering.frontends.fx.autocast import AUTOCAST_KEY
from lowering.frontends.fx.control_flow_gradients import (
    differentiable,
    gradient_function,
    is_differentiable,
)
from lowering.frontends.fx.regions import RecordedFunction, in_region, record
from lowering.frontends.fx.sources import calling_line
from lowering.frontends.jax.composite_call import on_selected

Function: TypeAlias = Callable[..., list[Any]]
"""A function of JAX arrays."""


@cache
def offer_control_flow() -> None:
    """Register the kernels, for the life of the process."""
    kernels: dict[str, Callable[..., Any]] = {
        "cond": cond,
        "while_loop": while_loop,
        "scan": scan,
        "map_impl": mapped,
        "associative_scan": associative_scan,
        "out_dtype": product_of_type,
    }
    for name, kernel in kernels.items():
        for key in (AUTOGRAD_KEY, FUNCTIONALIZATION_KEY, AUTOCAST_KEY):
            torch_internals.add_higher_order_kernel(name, key, kernel, _is_recorded)


def _is_recorded(tensor: Tensor) -> bool:
    # AOTAutograd traces with fake tensors of the same device, and keeps these operators whole.
    return capture.computed_in(tensor) is not None


# ---- operators ----


def product_of_type(operator: Callable[..., Tensor], dtype: torch.dtype, *operands: Any) -> Tensor:
    """`out_dtype`, which takes an operator like control flow takes functions: products of int8 that
    are summed in int32, as in dynamic quantization."""
    wide = [
        x.to(torch.promote_types(x.dtype, dtype)) if isinstance(x, Tensor) else x for x in operands
    ]
    return operator(*wide).to(dtype)


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any]
) -> Any:
    """See torch.cond.

    Raises:
        ControlFlowError: the branches return different types, or cannot be part of a program.
    """
    if not isinstance(pred, Tensor) or capture.computed_in(pred) is None:
        return true_fn(*operands) if pred else false_fn(*operands)
    tensors, (true, false) = _on_tensors(operands, true_fn, false_fn)
    branches = [record(branch, tensors, "torch.cond") for branch in (true, false)]
    first, second = branches
    _check_types("torch.cond", "true_fn", first.results, "false_fn", second.results)
    if (first.structure, first.present) != (second.structure, second.present):
        raise ControlFlowError("torch.cond: true_fn and false_fn nest their results differently")
    read = _without_repetition(branches)
    emit = partial(_node, "cond", _cond_in_jax, [pred, tensors], branches, first.results)

    def pull(inputs: Sequence[Tensor], _: Sequence[Tensor], grads: Sequence[Tensor]) -> Any:
        needed = [tensor.requires_grad for tensor in inputs]
        true_backward, false_backward = (
            gradient_function(branch, operands=len(tensors), read=read, needed=needed)
            for branch in (true, false)
        )
        gradients = iter(cond(pred, true_backward, false_backward, (*inputs, *grads)))
        return [next(gradients) if is_needed else None for is_needed in needed]

    return first.nested(differentiable(emit, pull, [*tensors, *map(in_region, read)]))


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any],
    mutated_arg_indices: str = "",
) -> Any:
    """See torch._higher_order_ops.while_loop. It has no gradient.

    Raises:
        ControlFlowError: the loop carries a number, a carried tensor changes its type, or a
            function cannot be part of a program.
    """
    for value in carried_inputs:
        if not isinstance(value, Tensor):
            raise ControlFlowError(
                f"while_loop carries the number {value}; carry torch.tensor({value}) instead"
            )
    carried = list(carried_inputs)
    operands, (test_fn, step_fn) = _on_tensors([*carried, *additional_inputs], cond_fn, body_fn)
    further = operands[len(carried) :]
    described = [_described(tensor) for tensor in operands]
    test = record(test_fn, operands, "while_loop", described=described)
    if [result.numel() for result in test.results] != [1]:
        raise ControlFlowError("while_loop: cond_fn has to return one tensor of one element")
    step = record(step_fn, operands, "while_loop", described=described)
    types = described[: len(carried)]
    _check_types("while_loop", "carried_inputs", types, "the results of body_fn", step.results)
    emit = partial(_node, "while_loop", _loop_in_jax, [carried, further], [test, step], types)

    line = calling_line()

    def pull(*_: Any) -> Any:
        raise ControlFlowError(
            f"{line}while_loop has no gradient in a program, as the number of its steps depends"
            " on values; use scan, or call it under torch.no_grad()"
        )

    read = map(in_region, _without_repetition([test, step]))
    return step.nested(differentiable(emit, pull, [*operands, *read]))


def scan(
    combine_fn: Callable[..., Any],
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    additional_inputs: Sequence[Any],
    mutated_arg_indices: str = "",
) -> Any:
    """See torch._higher_order_ops.scan.

    Raises:
        ControlFlowError: a carried tensor changes its type, or the function cannot be part of a
            program.
    """
    return _scanned("scan", combine_fn, init, xs, additional_inputs)


def mapped(
    f: Callable[..., Any],
    xs: Sequence[Tensor],
    pos_args: Sequence[Any],
    mutated_arg_indices: str = "",
) -> Any:
    """See torch._higher_order_ops.map: a scan that carries nothing."""
    return _scanned("map", f, [], xs, pos_args)


def associative_scan(
    combine_fn: Callable[..., Any], xs: Sequence[Tensor], additional_inputs: Sequence[Any]
) -> Any:
    """See torch._higher_order_ops.associative_scan: a scan that starts with the first elements, and
    has a step for each further element."""

    def step(*values: Any) -> Any:
        combined = combine_fn(*values)
        return combined, combined

    firsts, rest = [x[0] for x in xs], [x[1:] for x in xs]
    _, nested = _scanned("associative_scan", step, firsts, rest, additional_inputs)
    leaves, structure = pytree.tree_flatten(nested)
    whole = [torch.cat([x[:1], further]) for x, further in zip(xs, leaves, strict=True)]
    return pytree.tree_unflatten(whole, structure)


def _scanned(
    operator: str,
    function: Callable[..., Any],
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    additional: Sequence[Any],
) -> Any:
    carried, rows = len(init), len(init) + len(xs)
    operands, (step_fn,) = _on_tensors([*init, *xs, *additional], function)
    steps = xs[0].shape[0]
    described = [_described(tensor) for tensor in operands]
    described[carried:rows] = [_described(x, x.shape[1:]) for x in xs]
    step = record(step_fn, operands, operator, described=described)
    types, rest = described[:carried], step.results[carried:]
    _check_types(operator, "init", types, "the carried values", step.results[:carried])
    inputs = [*operands, *map(in_region, step.read)]
    # The gradient of each step starts with the values carried before it.
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    stacked = [_described(x, (steps, *x.shape)) for x in [*rest, *(types if keep else [])]]
    emit = partial(
        _node,
        operator,
        _scan_in_jax,
        [list(init), list(xs), operands[rows:]],
        [step],
        [*types, *stacked],
        {"keep": keep},
    )
    pull = partial(_scan_backward, operator, step_fn, step, carried, len(xs))
    results = differentiable(emit, pull, inputs)
    return step.nested(results[: len(step.results)])


def _scan_backward(
    operator: str,
    function: Callable[..., Any],
    step: RecordedFunction,
    carried: int,
    rows: int,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor],
) -> list[Tensor | None]:
    """The gradients of a scan's inputs: a scan from the last step to the first, which carries the
    gradients of carried values, and the sums of the gradients of values that all steps read.

    Args:
        function: the function of one step.
        step: the recorded `function`.
        carried: the number of tensors that the scan carries.
        rows: the number of tensors of which each step has a row.
        outputs: the results, then the values carried before each step.
    """
    count = len(step.results)
    init, xs, shared = inputs[:carried], inputs[carried:][:rows], inputs[carried + rows :]
    smooth = [is_differentiable(tensor) for tensor in init]
    needed = [*smooth, *(tensor.requires_grad for tensor in inputs[carried:])]
    backward = gradient_function(
        function, operands=len(inputs) - len(step.read), read=step.read, needed=needed
    )
    grad_carried = list(compress(grads, smooth))
    grad_shared = [torch.zeros_like(tensor) for tensor in shared if tensor.requires_grad]
    grad_results = grads[carried:count]
    grad_befores = list(compress(grads[count:], smooth))
    befores = outputs[count:]

    def step_back(*values: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        parts = (grad_carried, grad_shared, grad_results, grad_befores, befores, xs, shared)
        after, sums, result, grad_before, before, row, fixed = _split(values, parts)
        rest = iter(after)
        every = [
            next(rest) if is_smooth else torch.zeros_like(tensor)
            for is_smooth, tensor in zip(smooth, before, strict=True)
        ]
        gradients = iter(backward(*before, *row, *fixed, *every, *result))
        carry = [grad + next(gradients) for grad in grad_before]
        grad_row = [next(gradients) for x in xs if x.requires_grad]
        return [*carry, *(total + next(gradients) for total in sums)], grad_row

    reverse = [tensor.flip(0) for tensor in (*grad_results, *grad_befores, *befores, *xs)]
    ends, grad_xs = _scanned(operator, step_back, [*grad_carried, *grad_shared], reverse, shared)
    end, row = iter(ends), iter(grad_xs)
    return [
        *(next(end) if is_smooth else None for is_smooth in smooth),
        *(next(row).flip(0) if x.requires_grad else None for x in xs),
        *(next(end) if tensor.requires_grad else None for tensor in shared),
    ]


def _split(values: Sequence[Tensor], parts: Sequence[Sequence[Any]]) -> list[Sequence[Tensor]]:
    """Split values into parts of the same lengths as `parts`."""
    rest = iter(values)
    return [list(islice(rest, len(part))) for part in parts]


# ---- nodes ----


def _node(
    operator: str,
    rule: Callable[..., Any],
    operands: Sequence[Any],
    functions: Sequence[RecordedFunction],
    described: Sequence[Tensor],
    keywords: Mapping[str, Any] | None = None,
) -> list[Tensor]:
    """Add a node, and return its results as tensors for the user's program.

    Args:
        functions: the arguments of the rule after the operands.
    """
    tensors = pytree.tree_map_only(Tensor, capture.traced, list(operands))
    bodies = [function.body for function in functions]
    # The rule gets functions that close over these values. As arguments, they are computed first.
    lifted = [outer for body in bodies for outer in body.lifted]
    arguments = [*tensors, lifted, *bodies]
    name = f"higher_order::{operator}"
    made = capture.node(rule, arguments, keywords or {}, list(described), name)
    return list(map(torch_internals.functional, made))


def _truth(array: Any) -> Any:
    """The truth of an array of one element."""
    return jnp.reshape(array, ()).astype(bool)


def _cond_in_jax(
    dtypes: Any, pred: Any, operands: Any, lifted: Any, true: Function, false: Function
) -> Any:
    return jax.lax.cond(_truth(pred), true, false, *operands)


def _loop_in_jax(
    dtypes: Any, carried: Any, further: Any, lifted: Any, test: Function, step: Function
) -> Any:
    def goes_on(values: Any) -> Any:
        return _truth(test(*values, *further)[0])

    return jax.lax.while_loop(goes_on, lambda values: step(*values, *further), list(carried))


def _scan_in_jax(
    dtypes: Any, init: Any, xs: Any, further: Any, lifted: Any, step: Function, *, keep: bool
) -> Any:
    """The values that a scan carries at its end, the results of its steps, and, if `keep`, the
    values carried before each step."""

    def run_step(carried: Any, row: Any) -> Any:
        results = step(*carried, *row, *further)
        return results[: len(init)], [*results[len(init) :], *(carried if keep else [])]

    carried, stacked = jax.lax.scan(run_step, list(init), list(xs))
    return [*carried, *stacked]


RULES.update({rule: rule for rule in (_cond_in_jax, _loop_in_jax, _scan_in_jax)})


# ---- operands ----


def _on_tensors(
    values: Sequence[Any], *functions: Callable[..., Any]
) -> tuple[list[Tensor], list[Callable[..., Any]]]:
    """The tensors among values, and functions of all values as functions of the tensors."""
    is_tensor = [isinstance(value, Tensor) for value in values]
    tensors = list(compress(values, is_tensor))
    return tensors, [on_selected(function, values, is_tensor) for function in functions]


def _described(tensor: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """A tensor on the device `meta` with the dtype of `tensor`."""
    size = tuple(tensor.shape if shape is None else shape)
    return torch.empty(size, dtype=tensor.dtype, device="meta")


def _without_repetition(functions: Sequence[RecordedFunction]) -> list[Tensor]:
    return list({id(tensor): tensor for body in functions for tensor in body.read}.values())


def _check_types(
    operator: str, name: str, tensors: Sequence[Tensor], second: str, compared: Sequence[Tensor]
) -> None:
    """Check that two sequences of tensors have the same shapes and dtypes.

    Raises:
        ControlFlowError: a shape or dtype differs.
    """
    texts = [", ".join(map(_text, listed)) or "nothing" for listed in (tensors, compared)]
    if texts[0] != texts[1]:
        raise ControlFlowError(
            f"{operator}: {name} and {second} have different types: {texts[0]}, and {texts[1]};"
            " make their shapes and dtypes equal, as with .expand(…) and .to(…)"
        )


def _text(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
