"""Cells and layers of recurrent networks.

torch.nn.LSTMCell and torch.nn.GRUCell call one operator per step, and torch.nn.LSTM calls one for
all layers and steps. A composite is one cell, or one layer in one direction. Hochreiter and
Schmidhuber, "Long Short-Term Memory" (1997); Cho et al., "Learning Phrase Representations using RNN
Encoder-Decoder" (2014). Gates and the order of operations are the same as in torch.nn.LSTM and
torch.nn.GRU. The stock lowering writes to slices of the gates in place, so torch_xla gathers each
gate with a table of indices. These functions slice the gates instead.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import UnsupportedCallError
from composites.intermediates import intermediate

_LSTM_GATES = ("entering", "forgotten", "proposed", "shown")
_GRU_INPUT = ("reset_of_input", "update_of_input", "new_of_input")
_GRU_STATE = ("reset_of_state", "update_of_state", "new_of_state")
States = TypeVar("States", tuple[Tensor], tuple[Tensor, Tensor])
LstmResults = tuple[Tensor, Tensor, Tensor]


def lstm_cell(
    input: Tensor,
    hx: Tensor,
    cx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM.

    Args:
        input: `[N, I]`.
        hx, cx: `[N, H]`, the hidden state and the cell state.
        w_ih, w_hh: `[4H, I]` and `[4H, H]`; the rows are input, forget, cell and output gate.
        b_ih, b_hh: `[4H]`.

    Returns:
        The next hidden state and cell state, `[N, H]`.
    """
    gates = functional.linear(hx, w_hh, b_hh) + functional.linear(input, w_ih, b_ih)
    entering, forgotten, proposed, shown = map(intermediate, gates.chunk(4, 1), _LSTM_GATES)
    cy = forgotten.sigmoid() * cx + entering.sigmoid() * proposed.tanh()
    return shown.sigmoid() * cy.tanh(), cy


def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a GRU.

    Args:
        input: `[N, I]`.
        hx: `[N, H]`, the state.
        w_ih, w_hh: `[3H, I]` and `[3H, H]`; the rows are reset, update and new gate.
        b_ih, b_hh: `[3H]`.

    Returns:
        The next state, `[N, H]`.
    """
    input_products, state_products = _gru_products(input, hx, w_ih, w_hh, b_ih, b_hh)
    reset = (state_products[0] + input_products[0]).sigmoid()
    update = (state_products[1] + input_products[1]).sigmoid()
    proposed = (input_products[2] + state_products[2] * reset).tanh()
    return (hx - proposed) * update + proposed


def _gru_products(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """Return the products of the reset, update and new gate with the input, and with the state."""
    input_products = functional.linear(input, w_ih, b_ih).chunk(3, 1)
    state_products = functional.linear(hx, w_hh, b_hh).chunk(3, 1)
    return (
        tuple(map(intermediate, input_products, _GRU_INPUT)),
        tuple(map(intermediate, state_products, _GRU_STATE)),
    )


def scanned_gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """`gru_cell` with the order of operations of torch_xla's torch.nn.GRU."""
    input_products, state_products = _gru_products(input, hx, w_ih, w_hh, b_ih, b_hh)
    reset = torch.sigmoid(input_products[0] + state_products[0])
    update = torch.sigmoid(input_products[1] + state_products[1])
    proposed = torch.tanh(input_products[2] + reset * state_products[2])
    return (1 - update) * proposed + update * hx


def adapt_scanned_gru(
    composite: Callable[..., Tensor], carry: dict[str, Tensor], x_t: Tensor
) -> tuple[dict[str, Tensor], Tensor]:
    """Adapt the scanned step of torch_xla's torch.nn.GRU, whose carry includes the weights."""
    state = composite(
        x_t, carry["h"], carry["w_ih"], carry["w_hh"], carry.get("b_ih"), carry.get("b_hh")
    )
    return {**carry, "h": state}, state


def adapt_lstm_cell(
    composite: Callable[..., tuple[Tensor, Tensor]],
    input: Tensor,
    hx: Sequence[Tensor],
    *weights: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Adapt aten::lstm_cell, which takes both states in one list."""
    return composite(input, *hx, *weights)


def lstm(
    input: Tensor,
    hx: Tensor,
    cx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
    *,
    reverse: bool,
) -> LstmResults:
    """One layer of an LSTM in one direction, over all steps.

    Args:
        input: `[T, N, I]`.
        hx, cx: `[N, H]`, the states before the first step.
        w_ih, w_hh, b_ih, b_hh: as for a cell.
        reverse: True to process the last step first.

    Returns:
        The hidden states after each step, `[T, N, H]`, and both final states, `[N, H]`.
    """
    weights = (w_ih, w_hh, b_ih, b_hh)
    outputs, states = _steps(lambda x, h, c: lstm_cell(x, h, c, *weights), input, (hx, cx), reverse)
    return outputs, *states


def gru(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
    *,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """One layer of a GRU in one direction, over all steps.

    Args:
        input: `[T, N, I]`.
        hx: `[N, H]`, the state before the first step.
        w_ih, w_hh, b_ih, b_hh: as for a cell.
        reverse: True to process the last step first.

    Returns:
        The states after each step, `[T, N, H]`, and the final state, `[N, H]`.
    """
    weights = (w_ih, w_hh, b_ih, b_hh)
    outputs, (state,) = _steps(lambda x, h: (gru_cell(x, h, *weights),), input, (hx,), reverse)
    return outputs, state


def _steps(
    cell: Callable[..., States], input: Tensor, states: States, reverse: bool
) -> tuple[Tensor, States]:
    """Return the hidden states after each step, and all final states."""
    outputs: list[Tensor] = []
    for step in _in_order(input.unbind(0), reverse):
        states = cell(step, *states)
        outputs.append(states[0])
    return torch.stack(_in_order(outputs, reverse)), states


def _in_order(steps: Sequence[Tensor], reverse: bool) -> list[Tensor]:
    return list(reversed(steps)) if reverse else list(steps)


def adapt_lstm(
    composite: Callable[..., LstmResults],
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    *options: Any,
) -> LstmResults:
    """Adapt aten::lstm: one composite for each layer and direction."""
    hidden, cell = hx
    if hidden.size(2) != cell.size(2):
        raise UnsupportedCallError("proj_size projects the hidden states")
    output, (hidden, cell) = _layers(composite, input, (hidden, cell), params, *options)
    return output, hidden, cell


def adapt_gru(
    composite: Callable[..., tuple[Tensor, Tensor]],
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    *options: Any,
) -> tuple[Tensor, Tensor]:
    """Adapt aten::gru: one composite for each layer and direction."""
    output, (hidden,) = _layers(composite, input, (hx,), params, *options)
    return output, hidden


def _layers(
    composite: Callable[..., Any],
    input: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, list[Tensor]]:
    """Return the output, and the final states of all layers and directions."""
    directions = 2 if bidirectional else 1
    if input.size(1 if batch_first else 0) == 0:
        raise UnsupportedCallError("the sequence is empty")
    size = 4 if has_biases else 2
    parameters = [params[first : first + size] for first in range(0, len(params), size)]
    if len(parameters) != num_layers * directions:
        raise UnsupportedCallError("the number of parameters does not match the layers")
    start = list(zip(*(state.unbind(0) for state in states), strict=True))
    last: list[Sequence[Tensor]] = []
    output = input.transpose(0, 1) if batch_first else input
    for layer in range(num_layers):
        outputs: list[Tensor] = []
        for direction in range(directions):
            n = layer * directions + direction
            result, *final = composite(output, *start[n], *parameters[n], reverse=direction == 1)
            outputs.append(result)
            last.append(final)
        output = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if train and dropout != 0 and layer < num_layers - 1:
            output = torch.dropout(output, dropout, True)
    output = output.transpose(0, 1) if batch_first else output
    return output, [torch.stack(state) for state in zip(*last, strict=True)]
