"""An exported program: StableHLO with a description of inputs and outputs. Does not need torch.

On disk, a program is a folder:

| file | content |
|---|---|
| `program.mlir` | StableHLO text |
| `program.mlirbc` | the same as a portable StableHLO artifact |
| `manifest.json` | names, types, meaning of inputs and outputs; values of buffers; counts; hashes |
| `weights.safetensors` | values of inputs, on request |
"""

import hashlib
import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from composites.errors import MissingPackageError, ProgramError, did_you_mean
from composites.registry.listed_kernels import kernel_platforms
from lowering.export import manifest
from lowering.export.arrays import array, check_type, dtype_name, kept_arrays
from lowering.export.checkpoint import safetensors_file
from lowering.export.dimensions import Dimension, checked_sizes, evaluated, infer_sizes
from lowering.export.folders import folder_path, read_file, write_folder
from lowering.export.manifest import Manifest, Value
from lowering.export.partitioning import annotation, check_mesh, divided
from lowering.export.shardings import DeviceMesh
from lowering.export.state import module_values
from lowering.export.step import Kernels, Step, with_kernels
from lowering.stablehlo import (
    Limits,
    MissingJaxError,
    Module,
    StableHLOError,
    compile_module,
    composite_count,
    refine,
)
from lowering.stablehlo.dtypes import shape_and_element_type
from lowering.stablehlo.kernels import KernelUse
from lowering.stablehlo.run import main_types

GENERATION = "generation.json"
"""The file in a folder of two programs; see `generation`."""


@dataclass(frozen=True)
class Program:
    """StableHLO of a module's inference or training step."""

    module: Module
    inputs: tuple[Value, ...]
    """The inputs, in the order of the arguments of `@main`."""
    outputs: tuple[Value, ...]
    """The outputs, in the order of the results of `@main`."""
    mesh: DeviceMesh | None = None
    """The devices that shardings of inputs and outputs refer to."""
    dimensions: tuple[Dimension, ...] = ()
    """The dimensions whose size varies, and is `?` in the StableHLO."""
    keeps_decompositions: bool = False
    """True if decompositions were chosen at the export, so that `compile` chooses no faster
    alternatives."""

    @cached_property
    def mlir(self) -> str:
        """The StableHLO text."""
        return self.module.text

    @cached_property
    def composites(self) -> dict[str, int]:
        """The number of calls of each composite, by name."""
        return composite_count(self.module)

    def at(self, **sizes: int) -> "Program":
        """The program at one size of each of its `dimensions`, with its composites.

        Args:
            sizes: the sizes by dimension, such as `batch=4, seq=128`.

        Raises:
            ProgramError: a size is missing, unknown, or outside of the dimension's bounds.
            DynamicSizeError: the program cannot have the sizes.
        """
        chosen = checked_sizes(self.dimensions, sizes)
        if not chosen:
            return self
        inputs = tuple(replace(v, shape=evaluated(v.shape, chosen)) for v in self.inputs)
        module = refine(self.module, [value.type for value in inputs])
        types = map(shape_and_element_type, main_types(module)[1])
        outputs = tuple(
            replace(value, shape=type_[0])
            for value, type_ in zip(self.outputs, types, strict=True)
            if type_ is not None
        )
        return Program(module, inputs, outputs, keeps_decompositions=self.keeps_decompositions)

    def run(self, *arrays: Any, platform: str = "cpu", mesh: Any = None) -> dict[str, Any]:
        """Run the program with jax's PJRT client. Each size of its `dimensions` is compiled once.

        Args:
            arrays: one array for each input, in order, or a single mapping from input names to
                arrays. An array is a numpy array, a jax array or a torch tensor.
            platform: `cpu` or `cuda`; with a mesh, its devices decide.
            mesh: a `jax.sharding.Mesh` with the axes of `program.mesh`. The program is then divided
                among its devices, which may belong to several processes of `jax.distributed`. Each
                process passes whole arrays, or jax arrays on this mesh.

        Returns:
            numpy arrays by output name; with a mesh, jax arrays on it.

        Raises:
            ProgramError: inputs are missing or unknown, a value is not an array, or the mesh has
                other axes than the program's.
            RunError: an array does not fit, the platform does not exist, or XLA fails.
        """
        _check_platform(platform)
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            arrays = tuple(self._ordered(arrays[0]))
        if len(arrays) != len(self.inputs):
            raise ProgramError(
                f"the program takes {len(self.inputs)} inputs, got {len(arrays)}; give one array"
                " for each of its inputs, or one mapping from their names"
            )
        values = [array(value.name, item) for value, item in zip(self.inputs, arrays, strict=True)]
        if self.dimensions:
            inputs = [(value.name, value.shape) for value in self.inputs]
            sizes = infer_sizes(self.dimensions, inputs, [tuple(x.shape) for x in values])
            program: Program = self._once(tuple(sizes.values()), lambda: self.at(**sizes))
            return program.run(*values, platform=platform, mesh=mesh)
        if mesh is None:
            run = self._once(platform, lambda: compile_module(self.module, platform=platform))
        else:
            described = check_mesh(mesh, self.mesh)  # other objects may not be hashable
            run = self._once(
                mesh, lambda: divided(self.module, described, self.inputs, self.outputs, mesh)
            )
        results = run(*values)
        return {value.name: result for value, result in zip(self.outputs, results, strict=True)}

    def compile(
        self,
        platform: str | None = None,
        kernels: Kernels = "auto",
        donate: bool = True,
        *,
        ignored: Mapping[str, Collection[str]] | None = None,
        mesh: Any = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> Step:
        """Compile the program, to run it many times with its state on the device.

        Args:
            platform: `cpu` or `cuda`; by default jax's default platform. With a mesh, its devices
                decide.
            kernels: JAX functions or names of typed-FFI targets by composite, as for `bind` and
                `to_custom_call` (`acme.gelu` or `acme.gelu@2`). `auto` uses the kernels of
                registries for the platform and, on one CPU or one NVIDIA GPU, faster alternatives
                to decompositions, unless decompositions were chosen at the export. A list of names
                (`acme.gelu`, `acme.*`) uses only kernels, for these composites, and None neither
                kernels nor alternatives. A function may raise `UnsupportedCallError` for a call,
                which then keeps its decomposition.
            donate: whether a call reuses the memory of its state.
            ignored: attributes that a kernel of `kernels` ignores, by composite.
            mesh: a `jax.sharding.Mesh` with the axes of `program.mesh`. The program is then divided
                among its devices.
            cache: a folder for compiled programs; by default, jax's own settings apply, such as
                JAX_COMPILATION_CACHE_DIR.

        Raises:
            ProgramError: the mesh has other axes than the program's, a kernel is not listed, or the
                program's sizes vary.
            BindError: a kernel fails for a call; the message names both.
            UnknownCompositeError: the program has no composite of a name in `kernels`.
            RunError: the platform does not exist, or XLA rejects the program.
        """
        _check_platform("cpu" if platform is None else platform)
        self._check_static("compile")
        return Step.compile(
            self.module,
            self.inputs,
            self.outputs,
            self.mesh,
            keeps_decompositions=self.keeps_decompositions,
            platform=platform,
            kernels=kernels,
            ignored=ignored,
            donate=donate,
            mesh=mesh,
            cache=cache,
        )

    def with_kernels(
        self,
        platform: str,
        kernels: Kernels = "auto",
        *,
        ignored: Mapping[str, Collection[str]] | None = None,
    ) -> "ProgramWithKernels":
        """The program with kernels, for a platform that this machine need not have. JAX functions
        become the decompositions of composites, and targets of the typed FFI replace calls.
        `compile(platform, kernels=None)` on a machine that has the platform runs the kernels. The
        JAX functions need not be installed on that machine.

        Args:
            platform: a platform that registries list kernels for: `cpu`, `cuda`, `rocm`, `tpu`, or
                the name of a PJRT plug-in.
            kernels: see `compile`. The process that compiles the program has to register targets of
                the typed FFI.
            ignored: attributes that a kernel of `kernels` ignores, by composite.

        Raises:
            ProgramError: the platform or a listed kernel does not exist, or sizes vary.
            BindError: a kernel fails for a call, or cannot be lowered for the platform; the message
                names both.
            UnknownCompositeError: the program has no composite of a name in `kernels`.
        """
        platforms = kernel_platforms()
        if platform not in platforms:
            raise ProgramError(
                f"the platform must be one of {', '.join(platforms)}, not {platform!r}"
                f"{did_you_mean(str(platform).lower(), platforms)}; these are jax's and those that"
                " registries list kernels for"
            )
        self._check_static("with_kernels")
        alternatives = not self.keeps_decompositions and self.mesh is None
        placed = with_kernels(self.module, kernels, ignored, platform, alternatives=alternatives)
        program = replace(self, module=placed.module, keeps_decompositions=True)
        return ProgramWithKernels(program, platform, placed.uses)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        portable: str | None = None,
        weights: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the program to a folder, completely or not at all.

        An existing program is replaced completely. Several threads and processes may save to one
        folder, which then has the program of one of them.

        Args:
            folder: the folder. An existing folder must be empty, or hold a program and nothing
                else. The docstring of this module lists its files.
            portable: the StableHLO version of the artifact, such as `1.0.0`; by default 1.13.0,
                which jaxlib 0.7.1 and newer read.
            weights: values of inputs by name, as torch tensors or numpy arrays; written to
                weights.safetensors. `module_weights` returns the values of a module.

        Raises:
            ProgramError: `weights` does not fit the inputs, inputs and outputs are not those of
                `@main`, or the folder cannot be written.
            VersionError: the version cannot be written, or cannot hold the program; the message
                names a version that can.
        """
        path = folder_path(folder)
        files = self.files(portable=portable, weights=weights)
        required = (manifest.NAME, manifest.TEXT)
        write_folder(path, files, "a program", required, manifest.FILES)

    def files(
        self, *, portable: str | None = None, weights: Mapping[str, Any] | None = None
    ) -> dict[str, bytes]:
        """The files that `save` writes, by name; see `save`."""
        differs = manifest.difference(self.module, self.inputs, self.outputs)
        if differs:
            raise ProgramError(
                f"the program's inputs and outputs are not those of @main: {differs}"
            )
        module = self.module
        if self.mesh is not None:
            # StableHLO has no versioned form of Shardy's attributes.
            module = annotation(self.inputs, self.outputs, self.mesh, "gspmd")(module)
        files = {manifest.TEXT: self.mlir.encode(), manifest.ARTIFACT: module.portable(portable)}
        if weights is not None:
            files[manifest.WEIGHTS] = self._packed(weights)
        hashes = {name: manifest.digest(content) for name, content in files.items()}
        written = Manifest(
            self.inputs,
            self.outputs,
            self.composites,
            hashes,
            self.mesh,
            self.dimensions,
            self.keeps_decompositions,
        )
        return {**files, manifest.NAME: written.text.encode()}

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, limits: Limits | None = None) -> "Program":
        """Read a program from a folder.

        Args:
            folder: a folder that `save` wrote.
            limits: for an untrusted folder: `lowering.stablehlo.Limits` of time and memory. Another
                process reads the StableHLO first, because a damaged file can crash the process.

        Raises:
            ProgramError: the program is absent, damaged or of a newer format, manifest.json does
                not describe `@main`, or the StableHLO cannot be read within the limits.
        """
        path = folder_path(folder)
        source = path / manifest.NAME
        if not source.exists() and (path / GENERATION).is_file():
            raise ProgramError(
                f"{path} has two programs, prefill and decode; composites.GenerationPrograms.load"
                " reads both, and Program.load each of its folders"
            )
        read = manifest.parse(read_file(source), str(source))
        text = read_file(path / manifest.TEXT)
        for name, expected in read.sha256.items():
            actual = manifest.digest(text) if name == manifest.TEXT else _digest(path / name)
            if actual != expected:
                raise ProgramError(
                    f"{path / name} has changed since it was saved: its SHA-256 is not the one in"
                    f" {manifest.NAME}; save the program again"
                )
        try:
            module = Module.from_bytes(text, str(path / manifest.TEXT), limits=limits)
            program = cls(
                module,
                read.inputs,
                read.outputs,
                read.mesh,
                read.dimensions,
                read.keeps_decompositions,
            )
            differs = manifest.difference(module, read.inputs, read.outputs)
            differs = differs or manifest.count_difference(read.composites, program.composites)
        except MissingJaxError:
            raise
        except StableHLOError as error:
            raise ProgramError(f"{path} is damaged: {error}") from error
        if differs:
            raise ProgramError(f"{source} does not describe {manifest.TEXT}: {differs}")
        return program

    def _check_static(self, method: str) -> None:
        if self.dimensions:
            sizes = ", ".join(f"{dimension.name}=…" for dimension in self.dimensions)
            raise ProgramError(
                "a program whose sizes vary is compiled at one size; write"
                f" program.at({sizes}).{method}()"
            )

    def _once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """A value that is made once for each key."""
        made: dict[Hashable, Any] = self.__dict__.setdefault("_made", {})
        if key not in made:
            made[key] = make()
        return made[key]

    def _ordered(self, named: Mapping[str, Any]) -> Sequence[Any]:
        self._check_names(named)
        named = {**kept_arrays(self.inputs), **named}
        missing = [value.name for value in self.inputs if value.name not in named]
        if missing:
            raise ProgramError(f"inputs are missing: {', '.join(missing)}")
        return [named[value.name] for value in self.inputs]

    def _check_names(self, named: Mapping[str, Any]) -> None:
        names = [value.name for value in self.inputs]
        for name in named:
            if name not in names:
                close = did_you_mean(name, names) if isinstance(name, str) else ""
                raise ProgramError(f"there is no input {name!r}{close}")

    def _packed(self, weights: Mapping[str, Any]) -> bytes:
        if not isinstance(weights, Mapping):
            raise ProgramError(
                "weights must be a mapping from names of inputs to tensors, not"
                f" {type(weights).__name__}; program.module_weights(module) makes one"
            )
        self._check_names(weights)
        for value in self.inputs:
            if value.name in weights:
                check_type(value, weights[value.name])
                if dtype_name(weights[value.name]) == "complex128":
                    raise ProgramError(
                        f"{value.name} cannot be written: safetensors has no complex128; leave it"
                        " out of the weights, and keep its value in another file"
                    )
        try:
            arrays = {name: array(name, value) for name, value in weights.items()}
            return safetensors_file(arrays)
        except (MissingPackageError, ProgramError):
            raise
        # Tensors may be of any subclass, and the errors of safetensors differ between versions.
        except Exception as error:
            raise ProgramError(f"the weights cannot be written: {error}") from error

    def module_weights(self, module: Any) -> dict[str, Any]:
        """The values of a torch module for the parameters and buffers of this program, by input
        name. Buffers that the module lacks, such as the constants of an ExportedProgram, have their
        values at the export, as numpy arrays."""
        names = {value.name for value in self.inputs}
        held = {name: value for name, value in module_values(module).items() if name in names}
        return kept_arrays(self.inputs) | held


@dataclass(frozen=True)
class ProgramWithKernels:
    """A program with kernels for one platform, made by `Program.with_kernels`."""

    program: Program
    """The program. JAX functions are the decompositions of its composites, and targets of the typed
    FFI have replaced calls."""
    platform: str
    """The platform, such as `cpu` or `cuda`."""
    kernels: tuple[KernelUse, ...]
    """The distinct calls of composites, each with the kernel or faster alternative that takes it,
    and the reasons why kernels that were tried before do not."""


def _check_platform(platform: object) -> None:
    if not isinstance(platform, str) or not platform:
        raise ProgramError(f"the platform must be a name such as 'cpu' or 'cuda', not {platform!r}")


def _digest(path: Path) -> str:
    """The hash of a file that may be larger than the memory."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ProgramError(f"{path} cannot be read: {error.strerror}") from error
