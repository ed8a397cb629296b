"""An exported program: StableHLO, and a description of its inputs and outputs. Needs no torch.

On disk a program is a folder:

| file | content |
|---|---|
| `program.mlir` | StableHLO text |
| `program.mlirbc` | the same module as a portable StableHLO artifact |
| `manifest.json` | names, types and meaning of inputs and outputs; counts of composites |
| `weights.safetensors` | values of inputs, if requested |
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from composites.errors import MissingPackageError, ProgramError, did_you_mean
from composites.files import write_atomic
from lowering.stablehlo import Executable, Module, compile_module, composite_count

FORMAT = 1
"""Version of manifest.json."""


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output of a program."""

    name: str
    """`param:encoder.0.weight`, `buffer:…`, `state:….exp_avg`, `arg:0`, `kwarg:…` or `rng_seed`.
    Outputs can also be `loss`, `grad:…` and `out:…`."""
    shape: tuple[int, ...]
    dtype: str
    """The element type in StableHLO, such as `f32`."""
    updates: str | None = None
    """For an output: the input whose next value it is."""


@dataclass(frozen=True)
class Program:
    """StableHLO of a module's inference or training step."""

    module: Module
    inputs: tuple[Value, ...]
    """In the order of the arguments of `@main`."""
    outputs: tuple[Value, ...]
    """In the order of the results of `@main`."""

    @cached_property
    def mlir(self) -> str:
        """The StableHLO text."""
        return self.module.text

    @cached_property
    def composites(self) -> dict[str, int]:
        """The number of calls of each composite, by name."""
        return composite_count(self.module)

    def run(self, *arrays: Any, platform: str = "cpu") -> dict[str, Any]:
        """Run the program with jax's PJRT client.

        Args:
            arrays: one array for each input, in order, or a single mapping from input names to
                arrays. An array is a numpy array, a jax array or a torch tensor.
            platform: `cpu` or `cuda`.

        Returns:
            numpy arrays by output name.

        Raises:
            ProgramError: inputs are missing or unknown.
            RunError: an array has another shape or dtype, or XLA failed.
        """
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            arrays = tuple(self._ordered(arrays[0]))
        results = self._executable(platform)(*map(_array, arrays))
        return {value.name: result for value, result in zip(self.outputs, results, strict=True)}

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        portable: str | None = None,
        weights: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the program to a folder, which is created if it does not exist.

        Args:
            folder: the docstring of this module lists the files.
            portable: StableHLO version of the artifact, such as `1.0.0`; by default the newest one
                that the installed jaxlib writes.
            weights: values of inputs by name, as torch tensors or numpy arrays, written to
                weights.safetensors. `module_weights` returns the values of a module.

        Raises:
            ProgramError: `weights` does not fit the inputs, or the folder cannot be written.
            VersionError: the artifact cannot be written for this version.
        """
        files: dict[str, str | bytes] = {
            "program.mlir": self.mlir,
            "program.mlirbc": self.module.portable(portable),
        }
        if weights is not None:
            files["weights.safetensors"] = self._packed(weights)
        files["manifest.json"] = json.dumps(self._manifest(), indent=2) + "\n"
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                write_atomic(Path(folder) / name, content)
        except OSError as error:
            raise ProgramError(f"{folder} cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Program:
        """Read a program from a folder.

        Raises:
            ProgramError: the manifest is missing, damaged or of another format.
        """
        path = Path(folder) / "manifest.json"
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ProgramError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ProgramError(f"{path} is not JSON: {error}") from error
        found = manifest.get("format") if isinstance(manifest, dict) else None
        if found != FORMAT:
            raise ProgramError(f"{path} has format {found!r}; this version reads {FORMAT}")
        try:
            inputs, outputs = (tuple(map(_value, manifest[key])) for key in ("inputs", "outputs"))
            return cls(Module.read(path.parent / "program.mlir"), inputs, outputs)
        except (KeyError, TypeError) as error:
            raise ProgramError(f"{path} is damaged: {error!r}") from error
        except OSError as error:
            raise ProgramError(f"{error.filename} cannot be read: {error.strerror}") from error

    def _executable(self, platform: str) -> Executable:
        cache: dict[str, Executable] = self.__dict__.setdefault("_executables", {})
        if platform not in cache:
            cache[platform] = compile_module(self.module, platform=platform)
        return cache[platform]

    def _ordered(self, named: Mapping[str, Any]) -> Sequence[Any]:
        self._check_names(named)
        missing = [value.name for value in self.inputs if value.name not in named]
        if missing:
            raise ProgramError(f"inputs are missing: {', '.join(missing)}")
        return [named[value.name] for value in self.inputs]

    def _check_names(self, named: Mapping[str, Any]) -> None:
        known = [value.name for value in self.inputs]
        for name in named:
            if name not in known:
                raise ProgramError(f"there is no input {name!r}{did_you_mean(name, known)}")

    def _packed(self, weights: Mapping[str, Any]) -> bytes:
        if find_spec("safetensors") is None:
            raise MissingPackageError(
                "weights are written with safetensors, which is not installed;"
                " pip install safetensors"
            )
        self._check_names(weights)
        for value in self.inputs:
            given = tuple(weights[value.name].shape) if value.name in weights else value.shape
            if given != value.shape:
                raise ProgramError(
                    f"{value.name} has shape {value.shape}, but its value has shape {given}"
                )
        if all(hasattr(value, "detach") for value in weights.values()):
            from safetensors.torch import save as save_torch

            tensors = {k: v.detach().cpu().contiguous() for k, v in weights.items()}
            return bytes(save_torch(tensors))
        from safetensors.numpy import save as save_numpy

        return bytes(save_numpy({name: _array(value) for name, value in weights.items()}))

    def module_weights(self, module: Any) -> dict[str, Any]:
        """The values of a torch module for the parameters and buffers of this program, by input
        name."""
        tensors = {f"param:{name}": value for name, value in module.named_parameters()}
        tensors |= {f"buffer:{name}": value for name, value in module.named_buffers()}
        known = {value.name for value in self.inputs}
        return {name: value for name, value in tensors.items() if name in known}

    def _manifest(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "inputs": [asdict(value) for value in self.inputs],
            "outputs": [asdict(value) for value in self.outputs],
            "composites": self.composites,
        }


def _value(item: Mapping[str, Any]) -> Value:
    return Value(item["name"], tuple(item["shape"]), item["dtype"], item["updates"])


def _array(value: Any) -> Any:
    """A torch tensor as a numpy array; other values unchanged. bfloat16 is converted bit by bit,
    because torch cannot convert it."""
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    if str(tensor.dtype) != "torch.bfloat16":
        return tensor.numpy()
    import ml_dtypes
    import torch

    return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
