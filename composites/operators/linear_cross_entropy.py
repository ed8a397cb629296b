"""The last linear layer of a language model and its loss, as one function.

In: the states before the layer, the layer's weight, and classes; out: the loss. Users call
`composites.linear_cross_entropy`. In a program that computes first logits and then the loss, as
models of transformers do, `rewrite_logits` finds the operands of the logits.

The first three functions take the arguments of the composite `linear_cross_entropy`. Reductions are
numbers from `composites.operators.aten_enums`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.amp.autocast_mode import is_autocast_available
from torch.nn import functional

from composites import torch_internals
from composites.errors import InvalidCallError, UnsupportedCallError
from composites.operators.aten_enums import MEAN, NO_REDUCTION, SUM
from composites.operators.losses import cross_entropy_backward, cross_entropy_with_sums
from composites.operators.opmath import opmath_type

_REDUCTIONS = {"none": NO_REDUCTION, "mean": MEAN, "sum": SUM}
_NAMES = {number: name for name, number in _REDUCTIONS.items()}


def loss_of_linear(
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of `linear(input, weight, bias)`, as in transformers: the logits have the type
    of the operands, and the loss is computed in f32.

    Args:
        input: `[…, H]`.
        weight: `[C, H]`; `bias`: `[C]`.
        target: `[…]`, classes.

    Returns:
        A scalar, or `[…]` if there is no reduction. f64 for f64, and f32 otherwise.
    """
    logits = _rows_of_logits(input, weight, bias)
    loss = functional.cross_entropy(
        logits,
        target.reshape(-1),
        ignore_index=ignore_index,
        reduction=_NAMES[reduction],
        label_smoothing=label_smoothing,
    )
    return loss if reduction else loss.view(target.shape)


def loss_with_rows(
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """`loss_of_linear` without label smoothing, with the same bits, and `row_maxima` and
    `row_log_sums`, which are intermediate values of the loss.

    Args:
        input, weight, bias: of one type, f32 or f64.

    Raises:
        UnsupportedCallError: autocast is on.
    """
    _check_autocast(input)
    logits = _rows_of_logits(input, weight, bias)
    classes = target.reshape(-1)
    loss, maxima, log_sums = cross_entropy_with_sums(logits, classes, None, reduction, ignore_index)
    row_losses = loss if reduction else loss.view(target.shape)
    return row_losses, maxima.view(target.shape), log_sums.view(target.shape)


def loss_of_linear_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None,
    maxima: Tensor,
    log_sums: Tensor,
    reduction: int,
    ignore_index: int,
) -> tuple[Tensor, Tensor]:
    """The gradients of `loss_of_linear` for input and weight, without label smoothing. They have
    the bits of the stock lowering.

    The logits are computed again; in one graph with the forward, XLA computes them once. The maxima
    and sums of their rows are operands, because computing them again would take communication if
    devices share the classes: XLA does not merge collectives.

    Args:
        grad_output: a scalar, or of the shape of `target` if there is no reduction.
        maxima, log_sums: of the shape of `target`, as `loss_with_rows` returns them.

    Raises:
        UnsupportedCallError: autocast is on.
    """
    _check_autocast(input)
    logits = _rows_of_logits(input, weight, bias)
    grads = cross_entropy_backward(
        grad_output.reshape(-1) if grad_output.dim() else grad_output,
        logits,
        target.reshape(-1),
        maxima.reshape(-1),
        log_sums.reshape(-1),
        reduction,
        ignore_index,
    )
    grad_input = grads.mm(weight).view(input.shape)
    grad_weight = grads.t().mm(input.reshape(grads.size(0), weight.size(1)))
    return grad_input, grad_weight


def _check_autocast(input: Tensor) -> None:
    """Refuse autocast, under which products have other types than their operands, and the backward
    can run under another autocast than the forward."""
    kind = input.device.type
    if is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        raise UnsupportedCallError("autocast is on")


def row_maxima(
    input: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None = None, *_: Any, **__: Any
) -> Tensor:
    """The greatest logit of each row, with the shape of `target`, saved for the backward."""
    return _logits(input, weight, bias).amax(-1)


def row_log_sums(
    input: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None = None, *_: Any, **__: Any
) -> Tensor:
    """The logarithm of the sum of exp(logit - maximum) of each row, saved for the backward."""
    logits = _logits(input, weight, bias)
    return torch.log(torch.exp(logits - logits.amax(-1, keepdim=True)).sum(-1))


def _rows_of_logits(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return _logits(input, weight, bias).view(-1, weight.size(0))


def _logits(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    # The stock lowering views the logits before the cast. With nothing between product and cast,
    # XLA would omit the rounding to bf16, and the bits would differ.
    viewed = input.unsqueeze(0) if input.dim() == 2 else input
    logits = functional.linear(viewed, weight, bias)
    return logits.to(opmath_type(logits.dtype)).view(*input.shape[:-1], weight.size(0))


def linear_cross_entropy_loss(
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """`loss_of_linear`, under the name whose calls the entry `linear_cross_entropy` catches."""
    return loss_of_linear(input, weight, target, bias, reduction, ignore_index, label_smoothing)


def linear_cross_entropy(
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of `torch.nn.functional.linear(input, weight, bias)`, computed in f32.

    With XLA tensors and `XLA_COMPOSITE_OP=linear_cross_entropy`, this is one composite, and its
    gradient is another. With `XLA_COMPOSITE_DECOMPOSITION=small` too, no tensor of the size of the
    logits is held. Everywhere else this is plain PyTorch.

    Args:
        input: the states before the layer, `[…, H]`.
        weight: the layer's weight, `[C, H]`.
        target: the class of each row, `[…]`.
        bias: the layer's bias, `[C]`.
        ignore_index: a class whose rows do not count.
        reduction: `mean`, `sum` or `none`.
        label_smoothing: between 0 and 1, as in `torch.nn.functional.cross_entropy`.

    Returns:
        A scalar, or `[…]` if the reduction is `none`. f64 for f64, and f32 for all other types.

    Raises:
        InvalidCallError: the shapes do not match, or the reduction is unknown.
    """
    if reduction not in _REDUCTIONS:
        names = ", ".join(_REDUCTIONS)
        raise InvalidCallError(f"linear_cross_entropy: no reduction {reduction!r}; use {names}")
    if not 0 <= label_smoothing <= 1:
        raise InvalidCallError(
            f"linear_cross_entropy: label_smoothing is between 0 and 1, not {label_smoothing}"
        )
    if not input.dim() or weight.dim() != 2 or input.size(-1) != weight.size(1):
        raise InvalidCallError(
            "linear_cross_entropy: input is [..., H] and weight is [C, H], not"
            f" {list(input.shape)} and {list(weight.shape)}"
        )
    if target.shape != input.shape[:-1]:
        raise InvalidCallError(
            "linear_cross_entropy: target has a class for each row of input,"
            f" {list(input.shape[:-1])}, not {list(target.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise InvalidCallError(
            f"linear_cross_entropy: bias has one number for each of the {weight.size(0)} rows of"
            f" weight, not {list(bias.shape)}"
        )
    if target.is_floating_point():
        raise InvalidCallError("linear_cross_entropy: target holds classes, not probabilities")
    number = _REDUCTIONS[reduction]
    return linear_cross_entropy_loss(
        input, weight, target, bias, number, ignore_index, label_smoothing
    )


def rewrite_logits(
    source: Tensor,
    target: Tensor,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = -100,
    **kwargs: Any,
) -> Tensor:
    """Rewrite `fixed_cross_entropy` of transformers, if its logits are the result of a linear layer
    without bias.

    Autograd's graph shows this: the node of the logits saves both operands, and raises an error if
    an operand was written to later. Any operation but a cast, such as soft-capping, has another
    node. Logits that are used only here are then never computed, because torch_xla computes only
    tensors that are alive at a sync.
    """
    if source.dim() != 2 or target.dim() != 1 or target.is_floating_point():
        raise UnsupportedCallError("the logits are not [N, C] with [N] classes")
    try:
        input, transposed = torch_internals.operands_of_product(source)
    except LookupError as error:
        raise UnsupportedCallError(error.args[0]) from None
    if source.dtype != opmath_type(input.dtype):
        raise UnsupportedCallError(f"the loss of {input.dtype} logits is in {source.dtype}")
    reduction = MEAN if num_items_in_batch is None else SUM
    weight = torch_internals.transpose_of(transposed)
    loss = linear_cross_entropy_loss(input, weight, target, None, reduction, ignore_index)
    if num_items_in_batch is None:
        return loss
    if isinstance(num_items_in_batch, Tensor):
        num_items_in_batch = num_items_in_batch.to(loss.device)
    return loss / num_items_in_batch
