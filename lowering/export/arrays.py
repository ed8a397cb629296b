"""Values of a program's inputs (tensors of torch, arrays of numpy or jax) as numpy arrays."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from composites.element_types import BY_NAME
from composites.errors import ProgramError
from lowering.export.manifest import Value
from lowering.stablehlo.dtypes import numpy_dtype


def array(name: str, value: Any) -> Any:
    """The value of an input as a numpy array; a jax array is returned unchanged."""
    if isinstance(value, bool | int | float | complex):
        return np.asarray(value)
    check_array(name, value)
    try:
        if hasattr(value, "detach"):
            return _numpy(value)
        np.dtype(value.dtype)  # jax has arrays whose dtype numpy does not know
    # Tensors may be of any subclass; those without data raise errors of several types.
    except Exception as error:
        raise ProgramError(f"the value of {name} cannot be read: {error}") from error
    return value


def kept_arrays(inputs: Iterable[Value]) -> dict[str, Any]:
    """The values that a program keeps for inputs, by name, as numpy arrays."""
    return {
        value.name: np.frombuffer(value.kept, numpy_dtype(value.dtype)).reshape(value.sizes)
        for value in inputs
        if value.kept is not None
    }


def check_array(name: str, value: Any) -> None:
    """Raise `ProgramError` if a value is not an array."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise ProgramError(
            f"the value of {name} must be a torch tensor, a numpy array or a jax array, not"
            f" {type(value).__name__}"
        )


def check_type(value: Value, actual: Any) -> None:
    """Raise `ProgramError` if an array has another shape or dtype than the input."""
    check_array(value.name, actual)
    if tuple(actual.shape) != value.shape:
        raise ProgramError(
            f"{value.name} has shape {value.shape}, but its value has shape {tuple(actual.shape)}"
        )
    dtype = dtype_name(actual)
    expected = BY_NAME[value.dtype].numpy if value.dtype in BY_NAME else value.dtype
    if dtype != expected:
        raise ProgramError(f"{value.name} has dtype {expected}, but its value has {dtype}")


def dtype_name(value: Any) -> str:
    """The name of an array's dtype, which is the same in PyTorch and numpy."""
    return str(getattr(value.dtype, "name", value.dtype)).removeprefix("torch.")


def _numpy(tensor: Any) -> Any:
    """A torch tensor as numpy. The bits of ml_dtypes types are reinterpreted."""
    import ml_dtypes

    dtype = getattr(ml_dtypes, dtype_name(tensor), None)
    if dtype is None:
        return tensor.numpy(force=True)
    import torch

    bits = {1: torch.uint8, 2: torch.int16}[tensor.element_size()]
    return tensor.detach().cpu().view(bits).numpy().view(dtype)
