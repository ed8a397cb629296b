"""A state in a folder, as safetensors.

| file | content |
|---|---|
| `model.safetensors` | parameters and buffers, under the names of the module's `state_dict` |
| `training.safetensors` | the rest, under the names of inputs: `state:0.weight.exp_avg`, `rng_seed`, and buffers that the `state_dict` leaves out |
"""  # noqa: E501

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from composites.element_types import NAME_OF_SAFETENSORS
from composites.errors import MissingPackageError, ProgramError
from lowering.export.folders import folder_path, write_folder
from lowering.export.manifest import Value
from lowering.export.state import State, first_weights
from lowering.stablehlo.dtypes import numpy_dtype

MODEL = "model.safetensors"
TRAINING = "training.safetensors"

_TIED = "composites.saved_as"
"""The key for names of one tensor, in the header of model.safetensors."""


def write(state: State, values: Mapping[str, Any], folder: str | os.PathLike[str]) -> None:
    """Write a state to a folder, completely or not at all.

    Args:
        state: the state to write.
        values: the tensors of the state as numpy arrays.
        folder: created if missing; an existing checkpoint is replaced.

    Raises:
        ProgramError: the folder holds something else, or cannot be written.
    """
    model = {name: values[key] for name, key in state.saved_as.items()} | dict(state.others)
    in_model = set(state.saved_as.values())
    training = {name: value for name, value in values.items() if name not in in_model}
    header = {"format": "pt", _TIED: json.dumps(dict(state.saved_as))}
    try:
        files = {
            MODEL: safetensors_file(model, header),
            TRAINING: safetensors_file(training, {"format": "pt"}),
        }
        write_folder(folder, files, "a checkpoint", allowed=files)
    except (TypeError, ValueError) as error:
        raise ProgramError(f"the state cannot be written to {folder!r}: {error}") from error


def read(inputs: Sequence[Value], folder: str | os.PathLike[str]) -> State:
    """Read a folder that `write` wrote.

    Raises:
        ProgramError: the checkpoint is missing, damaged, or of another program.
    """
    path = folder_path(folder)
    model, header = read_tensors(path / MODEL)
    training, _ = read_tensors(path / TRAINING)
    try:
        saved_as: dict[str, str] = json.loads(header.get(_TIED, "{}"))
        values = {key: model[name] for name, key in saved_as.items()} | training
    except (ValueError, KeyError, AttributeError) as error:
        raise ProgramError(f"{path / MODEL} is damaged: {error!r}; save it again") from error
    missing = [value.name for value in inputs if value.name not in values]
    if missing:
        raise ProgramError(
            f"{path} is not a checkpoint of this program: it lacks {', '.join(missing[:5])}; pass"
            " weights from elsewhere to init"
        )
    weights = first_weights(inputs, values)
    unread = {name: value for name, value in model.items() if name not in saved_as}
    return State(weights.values, saved_as, unread)


def read_tensors(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays of a safetensors file by name, and its header.

    Raises:
        ProgramError: the file cannot be read, or is damaged.
    """
    safetensors = _safetensors()
    try:
        content = path.read_bytes()
        tensors = {}
        for name, described in safetensors.deserialize(content):
            dtype = numpy_dtype(NAME_OF_SAFETENSORS[described["dtype"]])
            tensors[name] = np.frombuffer(described["data"], dtype).reshape(described["shape"])
        with safetensors.safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
    except OSError as error:
        raise ProgramError(f"{path} cannot be read: {error.strerror or error}") from error
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise ProgramError(f"{path} is damaged: {error}") from error
    return tensors, header


def _safetensors(part: str = "") -> Any:
    import importlib

    try:
        return importlib.import_module(f"safetensors.{part}" if part else "safetensors")
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            "arrays are written with safetensors, which is not installed; pip install safetensors"
        ) from error


def safetensors_file(tensors: Mapping[str, Any], header: Mapping[str, str] | None = None) -> bytes:
    """The content of a safetensors file with `tensors`.

    Raises:
        MissingPackageError: safetensors is not installed.
    """
    # np.ascontiguousarray would give scalars a dimension.
    contiguous = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    return bytes(_safetensors("numpy").save(contiguous, None if header is None else dict(header)))
