"""Decompositions of the cells of recurrent networks, which PyTorch calls whole on devices other
than the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from lowering.frontends.aten_in_jax.table import overload


def _biased(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """See aten::_thnn_fused_lstm_cell: the next state and memory, and the gates."""
    gates = _biased(input_gates, input_bias) + _biased(hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    cx: Tensor,
    cy: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """See aten::_thnn_fused_lstm_cell_backward_impl: the gradients of gates, memory and bias."""
    i, f, g, o = workspace.chunk(4, 1)
    out = cy.tanh()
    grad_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    memory = grad_hy * o * (1 - out * out)
    if grad_cy is not None:
        memory = memory + grad_cy
    gates = torch.cat(
        [
            memory * g * i * (1 - i),
            memory * cx * f * (1 - f),
            memory * i * (1 - g * g),
            grad_hy * out * o * (1 - o),
        ],
        1,
    )
    return gates, memory * f, gates.sum(0) if has_bias else None


def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See aten::_thnn_fused_gru_cell: the next state, and what the backward needs."""
    ir, iz, inner = _biased(input_gates, input_bias).chunk(3, 1)
    hr, hz, hidden = _biased(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (inner + r * hidden).tanh()
    return (hx - n) * z + n, torch.cat([r, z, n, hx, hidden], 1)


def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """See aten::_thnn_fused_gru_cell_backward: the gradients of the gates of input and state, of
    the state, and of both biases."""
    r, z, n, hx, hidden = workspace.chunk(5, 1)
    of_z = grad_hy * (hx - n) * z * (1 - z)
    of_n = grad_hy * (1 - z) * (1 - n * n)
    of_r = of_n * hidden * r * (1 - r)
    inputs, states = torch.cat([of_r, of_z, of_n], 1), torch.cat([of_r, of_z, of_n * r], 1)
    biases = (inputs.sum(0), states.sum(0)) if has_bias else (None, None)
    return inputs, states, grad_hy * z, *biases


DECOMPOSITIONS: Mapping[object, Callable[..., object]] = {
    overload("aten::_thnn_fused_lstm_cell"): lstm_cell,
    overload("aten::_thnn_fused_lstm_cell_backward_impl"): lstm_cell_backward,
    overload("aten::_thnn_fused_gru_cell"): gru_cell,
    overload("aten::_thnn_fused_gru_cell_backward"): gru_cell_backward,
}
