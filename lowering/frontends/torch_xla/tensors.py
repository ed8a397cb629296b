"""Tensors of torch_xla: their types and values, and placeholders without data."""

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import count
from typing import Any

import torch
import torch_xla

from lowering.emission.types import TensorType
from lowering.frontends.tensor_types import DTYPE_OF, tensor_type
from lowering.frontends.torch_xla.modes import numbers_are_constants
from lowering.frontends.torch_xla.value_guard import values_readable
from lowering.stablehlo.dtypes import numpy_dtype

_XLAC = torch_xla._XLAC

DEVICE_TYPE = "xla"

_MISSING = ("f8E8M0FNU",)
SIGNED = frozenset({"ui16", "ui32", "ui64"})
"""Unsigned types that torch_xla 2.9 treats as signed when it makes a tensor of an XLA value: the
tensor's dtype is then int16, int32 or int64."""

_NUMBERS = count()


class XlaTensors:
    """See `lowering.frontends.protocols.Tensors`."""

    device_type = DEVICE_TYPE

    @staticmethod
    def owns(tensor: torch.Tensor) -> bool:
        return tensor.is_xla  # type: ignore[attr-defined,no-any-return]

    @staticmethod
    def tensor_type(tensor: torch.Tensor) -> TensorType:
        return tensor_type(tensor, "torch_xla", _MISSING)

    @staticmethod
    def described(type_: TensorType) -> tuple[torch.Size, torch.dtype]:
        return torch.Size(type_.shape), DTYPE_OF[type_.element_type]

    @staticmethod
    def placeholder(like: torch.Tensor) -> torch.Tensor:
        type_ = XlaTensors.tensor_type(like)
        if type_.element_type in SIGNED:
            return _stand_in(like)
        if type_.element_type.startswith("f8"):  # create_placeholder_tensor does not support these
            shape = {"type": type_.element_type.lower(), "sizes": type_.shape}
            return _XLAC._xla_create_placeholder_tensor(shape)  # type: ignore[no-any-return]
        from torch_xla.core.xla_builder import create_placeholder_tensor

        return create_placeholder_tensor(type_.shape, like.dtype)  # type: ignore[no-any-return]

    @staticmethod
    def read_instead(computed: torch.Tensor, saved: torch.Tensor) -> None:
        """Leave it to XLA, which computes equal values of one graph once."""


def sharding_text(tensor: torch.Tensor) -> str:
    """See `lowering.frontends.protocols.Frontend`."""
    return _XLAC._get_xla_sharding_spec(tensor) if XlaTensors.owns(tensor) else ""


def _stand_in(like: torch.Tensor) -> torch.Tensor:
    """A tensor with data in place of a placeholder, whose dtype would be signed."""
    if like.dim() == 0:
        return _number_in(like.dtype)
    blank = torch.zeros(tuple(like.shape), dtype=like.dtype, device="cpu")
    with values_readable():
        return blank.to(torch_xla.device())


def _number_in(dtype: torch.dtype) -> torch.Tensor:
    """A 0-d tensor with its own data.

    torch_xla makes one parameter of equal numbers, and constants of 0 and 1, or of all numbers
    while it traces.
    """
    number = torch.tensor(2 + next(_NUMBERS) % 60_000, device="cpu").to(dtype)
    with numbers_are_constants(False):
        with values_readable():
            made = number.to(torch_xla.device())
        _XLAC._get_xla_tensors_text([made])  # makes it a parameter or a constant
        return made


def has_no_value(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a placeholder, or computed from a placeholder."""
    if not XlaTensors.owns(tensor):
        return False
    _, read = _XLAC._get_tensors_xla_device_data_node([tensor])
    return any(map(_XLAC._is_placecholder, read))  # spelled like this in torch_xla 2.9


def read_values(tensor: torch.Tensor) -> Any:
    """The values of a tensor with data, as a numpy array."""
    type_ = XlaTensors.tensor_type(tensor)
    with values_readable():
        bits = tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return bits.view(numpy_dtype(type_.element_type)).reshape(type_.shape)


def next_id() -> int:
    """A number that torch_xla assigns to no other tensor."""
    return _XLAC._xla_get_tensor_id(torch.empty(0, device=DEVICE_TYPE))  # type: ignore[no-any-return]


def existed_before(
    first: int, operands: Sequence[torch.Tensor | None]
) -> Callable[[torch.Tensor], bool]:
    """Make a predicate that is True for tensors with ids below `first`, except operands."""
    own = {_XLAC._xla_get_tensor_id(tensor) for tensor in operands if tensor is not None}

    def is_older(tensor: torch.Tensor) -> bool:
        if not XlaTensors.owns(tensor):
            return False
        number = _XLAC._xla_get_tensor_id(tensor)
        return number < first and number not in own

    return is_older


def made_since(first: int, outputs: Sequence[torch.Tensor], context: Any) -> set[int]:
    """The parameters of a graph whose data did not exist at an earlier time.

    Args:
        first: the `next_id` of that time.
        outputs: the graph's results.
        context: the graph's LoweringContext.
    """
    # The data of a number that an operator takes has no tensor; its id is -1.
    ids, tensors = _XLAC._get_tensors_xla_device_data_node(list(outputs))
    return {
        context.tensor_parameter_id(tensor)
        for id_, tensor in zip(ids, tensors, strict=True)
        if id_ < 0 or id_ > first
    }


def before_dynamic_sizes(call: Callable[[], None]) -> None:
    """Call a function before a size of a tensor becomes dynamic, by `_xla_mark_dynamic`, which
    torch_xla's own export of a program calls.

    torch_xla's lowerings follow dynamic sizes. A computation has fixed shapes, and the conversion
    of a graph that calls a computation with such a tensor fails. torch_xla does not tell which
    tensors have dynamic sizes: a tensor that is computed from a marked tensor has the shape of the
    example.
    """
    original = _XLAC._xla_mark_dynamic

    @wraps(original)
    def marked(*arguments: Any, **keywords: Any) -> Any:
        call()
        return original(*arguments, **keywords)

    _XLAC._xla_mark_dynamic = marked
