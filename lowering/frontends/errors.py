"""Exceptions of a frontend while it traces or records, about calls that no graph can contain."""

MAX_CONSTANT_BYTES = 1 << 20
"""Maximum size of a tensor that is not an input. Larger constants would make the text
unreadable."""


class ValueReadError(RuntimeError):
    """Traced code reads the value of a tensor that has no value."""


class NoKernelError(ValueReadError):
    """Traced code calls an operator that has neither a kernel nor a decomposition."""


class ForeignDataError(RuntimeError):
    """Traced code computes with data that is not an input of the graph, and that cannot be one
    of its constants."""


class ControlFlowError(RuntimeError):
    """An operator of control flow, such as `torch.cond`, takes functions that cannot be part of a
    graph."""


_OTHER_DEVICE = ("XLA tensor", "same device")
"""Parts of the messages about a tensor on another device: the first of torch_xla 2.9, the second of
PyTorch."""


def other_device(text: str) -> ForeignDataError | None:
    """A clearer error for an error with a text, if a tensor is on another device, or if it is
    written to and is on the CPU or holds tensors; otherwise None."""
    if "mutating a non-functional tensor" in text:
        return ForeignDataError(
            "an operator writes a traced tensor to a tensor on another device, or to a tensor that"
            " holds others, such as a quantized tensor; make it as torch.zeros(n, device=x.device),"
            " or write to the tensors that it holds"
        )
    if not any(part in text for part in _OTHER_DEVICE):
        return None
    return ForeignDataError(
        "an operator combines a traced tensor with a tensor on another device"
        f" ({text.splitlines()[0]}); make it on the device of the module's arguments,"
        " as in torch.ones(n, device=x.device), or register it as a buffer"
    )


def check_constant(described: object, size: int) -> None:
    """Check that a tensor that the program made itself, of `size` bytes, may be a constant.

    Raises:
        ForeignDataError: the tensor is too large.
    """
    if size > MAX_CONSTANT_BYTES:
        raise ForeignDataError(
            f"the module computes with a tensor, {described}, that is not a parameter, buffer or"
            f" argument; {size / 1e6:.0f} MB is too large for a constant, so register it as a"
            " buffer"
        )
