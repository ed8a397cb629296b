"""State-space models: causal convolutions, and recurrences over a sequence."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import UnsupportedCallError

_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "swish": functional.silu,
}


def causal_conv1d(
    hidden_states: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str | None = None,
) -> Tensor:
    """Depthwise convolution over the current and past positions.

    Args:
        hidden_states: `[N, C, L]`, floating point.
        weight: `[C, K]`; the last column is for the current position.
        bias: `[C]`.
        activation: `silu`, or None.
    """
    _, channels, length = hidden_states.shape
    result = functional.conv1d(
        hidden_states.to(weight.dtype),
        weight=weight.unsqueeze(1),
        bias=bias,
        padding=weight.shape[-1] - 1,
        groups=channels,
    )[:, :, :length]
    if activation is not None:
        result = _ACTIVATIONS[activation](result)
    return result.to(hidden_states.dtype)


def causal_conv1d_fn(
    composite: Callable[..., Tensor],
    hidden_states: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    **kwargs: Any,
) -> Tensor:
    """Adapt `causal_conv1d_fn` of transformers. Other keywords do not change the result."""
    check_not_packed(kwargs)
    if activation is not None and activation not in _ACTIVATIONS:
        raise UnsupportedCallError(f"the activation is {activation}")
    return composite(hidden_states, weight, bias, activation=activation)


def selective_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    *,
    delta_softplus: bool = False,
) -> tuple[Tensor, Tensor]:
    """The selective state-space recurrence: Gu and Dao, "Mamba" (2023), section 3.2.

        state_t = exp(A dt_t) * state_{t-1} + dt_t * B_t * x_t,    y_t = C_t state_t + D x_t

    Args:
        hidden_states: x, `[N, C, L]`, floating point.
        dt: `[N, C, L]`; `delta_bias` is added first, then softplus is applied if `delta_softplus`.
        A: `[C, S]`.
        B, C: `[N, S, L]`.
        D, delta_bias: `[C]`.
        z: `[N, C, L]`; the result is multiplied by `silu(z)`.

    Returns:
        The result, `[N, C, L]`, and the last state, `[N, C, S]`.
    """
    dtype = hidden_states.dtype
    if delta_bias is not None:
        dt = dt + delta_bias.to(dt.dtype)[..., None]
    if delta_softplus:
        dt = functional.softplus(dt)
    inputs, outputs = B.transpose(1, 2), C.transpose(1, 2)
    decay = torch.exp(A[None, :, None, :] * dt[:, :, :, None])
    weights = dt[:, :, :, None] * inputs[:, None, :, :].float()
    added = weights * hidden_states[:, :, :, None].float()
    batch, channels, length = hidden_states.shape
    state = torch.zeros(batch, channels, A.shape[-1], dtype=dtype, device=hidden_states.device)
    steps = []
    for index in range(length):
        state = decay[:, :, index] * state + added[:, :, index]
        step = torch.matmul(state.to(dtype), outputs[:, index, :].unsqueeze(-1))
        steps.append(step[:, :, 0])
    result = torch.stack(steps, dim=-1)
    if D is not None:
        result = result + hidden_states * D[None, :, None]
    if z is not None:
        result = result * functional.silu(z)
    return result, state


def mamba_selective_scan(
    composite: Callable[..., tuple[Tensor, Tensor]],
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    use_mambapy: bool = False,
    use_associative_scan: bool = False,
    **kwargs: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Adapt `mamba_selective_scan` of transformers.

    The two other implementations add in another order. transformers uses mambapy only if it is
    installed, and the associative scan only in graphs of torch.compile.
    """
    check_not_packed(kwargs)
    is_compiled = torch.compiler.is_compiling() and not torch.compiler.is_exporting()
    has_mambapy = use_mambapy and find_spec("mambapy") is not None
    if has_mambapy or (use_associative_scan and is_compiled):
        raise UnsupportedCallError("the scan is not computed step by step")
    result, state = composite(
        hidden_states, dt, A, B, C, D, z, delta_bias, delta_softplus=delta_softplus
    )
    return (result, state) if return_last_state else result


def chunk_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    *,
    chunk_size: int,
    dt_softplus: bool,
    dt_limit: Sequence[float],
) -> tuple[Tensor, Tensor]:
    """The state-space recurrence with one decay per head, computed in chunks.

    Dao and Gu, "Transformers are SSMs" (2024), section 6: within a chunk as attention with a
    decaying mask, and from chunk to chunk as a recurrence.

    Args:
        hidden_states: `[N, L, H, P]`, floating point.
        dt: `[N, L, H]`; `dt_bias` is added first, then softplus is applied if `dt_softplus`, and
            the result is clamped to `dt_limit`.
        A, D, dt_bias: `[H]`.
        B, C: `[N, L, G, S]`; G divides H.
        initial_states: `[N, H, P, S]`; zero if None.

    Returns:
        The result, `[N, L, H, P]`, and the last state, `[N, H, P, S]`.
    """
    batch, length, heads, width = hidden_states.shape
    groups = B.shape[2]
    if dt_bias is not None:
        dt = dt + dt_bias.to(dt.dtype)
    if dt_softplus:
        dt = functional.softplus(dt)
    dt = torch.clamp(dt, min=dt_limit[0], max=dt_limit[1])
    x = hidden_states.float()
    B = B.float().repeat_interleave(heads // groups, dim=2, output_size=heads)
    C = C.float().repeat_interleave(heads // groups, dim=2, output_size=heads)
    padding = (chunk_size - length % chunk_size) % chunk_size
    residual = None if D is None else D[..., None] * _pad(x, padding)

    # b: batch, c: chunk, l and s: positions in a chunk, h: head, p: width of a head, n: state
    x = x * dt[..., None].float()
    decay = A.to(x.dtype) * dt.float()
    x, decay, B, C = (_in_chunks(tensor, padding, chunk_size) for tensor in (x, decay, B, C))
    decay = decay.permute(0, 3, 1, 2)
    summed = torch.cumsum(decay, dim=-1)

    mask = torch.exp(_segment_sum(decay))
    scores = torch.einsum("bclhn,bcshn->bclsh", C, B) * mask.permute(0, 2, 3, 4, 1)
    within = torch.einsum("bclsh,bcshp->bclhp", scores, x)

    to_end = torch.exp(summed[:, :, :, -1:] - summed)
    decayed = B * to_end.permute(0, -2, -1, 1)[..., None]
    states = torch.einsum("bclhn,bclhp->bchpn", decayed, x)
    if initial_states is None:
        before = torch.zeros_like(states[:, :1])
    else:
        before = initial_states[:, None].to(dtype=states.dtype, device=states.device)
    states = torch.cat([before, states], dim=1)
    chunk_sums = functional.pad(summed[:, :, :, -1], (1, 0))
    between = torch.exp(_segment_sum(chunk_sums)).transpose(1, 3)
    states = torch.einsum("bzch,bzhpn->bchpn", between, states)
    states, last = states[:, :-1], states[:, -1]

    from_start = torch.exp(summed)
    across = torch.einsum("bclhn,bchpn->bclhp", C, states)
    across = across * from_start.permute(0, 2, 3, 1)[..., None]
    result = (within + across).contiguous().reshape(batch, -1, heads, width)
    if residual is not None:
        result = result + residual
    return (result[:, :length] if padding else result), last


def mamba2_chunk_scan(
    composite: Callable[..., tuple[Tensor, Tensor]],
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: Sequence[float] = (0.0, float("inf")),
    return_final_states: bool = False,
    **kwargs: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Adapt `mamba2_chunk_scan` of transformers. Other keywords do not change the result."""
    check_not_packed(kwargs)
    result, last = composite(
        hidden_states,
        dt,
        A,
        B,
        C,
        D,
        dt_bias,
        initial_states,
        chunk_size=chunk_size,
        dt_softplus=dt_softplus,
        dt_limit=[float(bound) for bound in dt_limit],
    )
    return (result, last) if return_final_states else result


def check_not_packed(keywords: Mapping[str, Any]) -> None:
    """Leave packed sequences to the stock function, which raises its own error."""
    for name in ("cu_seqlens", "seq_idx"):
        if keywords.get(name) is not None:
            raise UnsupportedCallError("several sequences are packed into one")


def _pad(tensor: Tensor, size: int) -> Tensor:
    """Add zeros at the end of dimension 1."""
    return functional.pad(tensor, (0, 0) * (tensor.dim() - 2) + (0, size))


def _in_chunks(tensor: Tensor, padding: int, size: int) -> Tensor:
    padded = _pad(tensor, padding)
    return padded.reshape(padded.shape[0], -1, size, *padded.shape[2:])


def _segment_sum(tensor: Tensor) -> Tensor:
    """Sum `[…, T]` to `[…, T, T]`: from after the column up to the row, and -inf above the
    diagonal."""
    size = tensor.size(-1)
    tensor = tensor[..., None].expand(*tensor.size(), size)
    ones = torch.ones(size, size, device=tensor.device, dtype=torch.bool)
    tensor = tensor.masked_fill(~torch.tril(ones, diagonal=-1), 0)
    summed = torch.cumsum(tensor, dim=-2)
    return summed.masked_fill(~torch.tril(ones, diagonal=0), -torch.inf)


def wkv(time_decay: Tensor, time_first: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention of RWKV without an initial state: Peng et al., "RWKV" (2023), equations 19 to 22.

    Args:
        time_decay, time_first: `[C]`.
        key, value: `[N, L, C]`, floating point.

    Returns:
        `[N, L, C]` in the dtype of `key`.
    """
    result = torch.zeros_like(key)
    numerator_state = torch.zeros_like(key[:, 0], dtype=torch.float32)
    denominator_state = torch.zeros_like(key[:, 0], dtype=torch.float32)
    largest = torch.zeros_like(key[:, 0], dtype=torch.float32) - 1e38
    decay = -torch.exp(time_decay)
    for index in range(key.size(1)):
        k, v = key[:, index].float(), value[:, index]
        # Exponents are relative to the largest exponent, so that none overflows.
        bound = torch.maximum(largest, k + time_first)
        before, now = torch.exp(largest - bound), torch.exp(k + time_first - bound)
        numerator = before * numerator_state + now * v
        denominator = before * denominator_state + now
        result[:, index] = (numerator / denominator).to(result.dtype)

        bound = torch.maximum(largest + decay, k)
        before, now = torch.exp(largest + decay - bound), torch.exp(k - bound)
        numerator_state = before * numerator_state + now * v
        denominator_state = before * denominator_state + now
        largest = bound
    return result


def rwkv_linear_attention(
    composite: Callable[..., Tensor],
    time_decay: Tensor,
    time_first: Tensor,
    key: Tensor,
    value: Tensor,
    state: Sequence[Tensor] | None = None,
    return_state: bool = False,
) -> tuple[Tensor, None]:
    """Adapt `rwkv_linear_attention_cpu` of transformers."""
    if state is not None or return_state:
        raise UnsupportedCallError("the call passes a recurrent state")
    return composite(time_decay, time_first, key, value), None


def rnn_scan(
    hidden_states: Tensor,
    recurrent_gate: Tensor,
    reset: Tensor,
    recurrent_states: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """A linear recurrence, `state_t = gate_t * state_{t-1} + x_t`, with states in f32.

    De et al., "Griffin" (2024), section 2.4.

    Args:
        hidden_states: x, `[N, L, C]`, floating point.
        recurrent_gate: `[N, L, C]`.
        reset: `[N, L, 1]`, bool; True resets the state before a position to zero.
        recurrent_states: `[N, C]`, f32, the initial state; zero if None.

    Returns:
        All states, `[N, L, C]` in the dtype of `hidden_states`, and the last state, `[N, C]`, f32.
    """
    gate = recurrent_gate * ~reset
    state = recurrent_states
    if state is None:
        shape = hidden_states[:, 0].shape
        state = torch.zeros(shape, dtype=torch.float32, device=hidden_states.device)
    result = torch.zeros_like(hidden_states)
    for index in range(hidden_states.shape[1]):
        state = gate[:, index].type(torch.float32) * state
        state = state + hidden_states[:, index].type(torch.float32)
        result[:, index] = state.type(hidden_states.dtype)
    return result, state


def rnn_scan_of_module(
    composite: Callable[..., tuple[Tensor, Tensor]],
    module: Any,
    hidden_states: Tensor,
    recurrent_gate: Tensor,
    reset: Tensor,
    recurrent_states: Tensor | None,
    acc_dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Adapt `RecurrentGemmaRglru._rnn_scan`, which computes single positions differently."""
    if hidden_states.shape[1] == 1 or acc_dtype != torch.float32:
        raise UnsupportedCallError("the call is a single step, or its states are not f32")
    return composite(hidden_states, recurrent_gate, reset, recurrent_states)
