"""A compiled program, with its state on the device. This module does not need torch.

module, with kernels instead of composites
    -> a function (changing state, other state, batch) -> (changed state, results)
    -> compiled once by jax, which donates the changing state
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np

from composites.errors import ProgramError, did_you_mean
from lowering.export import checkpoint
from lowering.export.arrays import array
from lowering.export.compilation_cache import cached_in
from lowering.export.listed_kernels import listed_kernels, with_alternatives
from lowering.export.manifest import Value
from lowering.export.partitioning import (
    check_mesh,
    placed,
    platform_name,
    sharding_on,
    without_shardings,
)
from lowering.export.profiling import Profile, profile_calls
from lowering.export.shardings import DeviceMesh
from lowering.export.state import SEED, State, first_weights, flattened, is_state, small_values
from lowering.stablehlo import Module, RunError, jax_function
from lowering.stablehlo.candidates import Kernel
from lowering.stablehlo.comparison.timing import median_times
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.kernels import (
    NOT_LISTED,
    KernelUse,
    PlacedKernels,
    failing_calls,
    named_kernels,
    place_kernels,
)
from lowering.stablehlo.run import compiler_options, enable_x64, import_jax, local_devices
from lowering.stablehlo.seeds import next_seed

Kernels: TypeAlias = Mapping[str, Kernel] | Collection[str] | Literal["auto"] | None
"""Functions or targets by composite; names of listed kernels; all listed kernels; or none."""

MEASURED = ("cpu", "cuda")
"""The platforms that alternatives were measured on."""


@dataclass(frozen=True, slots=True)
class _Roles:
    """The inputs and outputs by their roles."""

    state: tuple[Value, ...]
    """The inputs that are state, in the order of the inputs."""
    changing: tuple[Value, ...]
    """State that each call replaces. The random seed, if there is one, is last."""
    fixed: tuple[Value, ...]
    """State that does not change."""
    batch: tuple[Value, ...]
    results: tuple[Value, ...]

    @classmethod
    def from_values(cls, inputs: Sequence[Value], outputs: Sequence[Value]) -> "_Roles":
        state = [value for value in inputs if is_state(value)]
        updated = {value.updates for value in outputs}
        changing = [value for value in state if value.name in updated]
        seed = [value for value in state if value.name == SEED]
        changed = {value.name for value in (*changing, *seed)}
        results = [value for value in outputs if value.updates not in changed]
        if any(value.name.startswith("param:") for value in changing):
            # The optimizer has used the gradients. They are not results, so XLA need not keep them.
            results = [value for value in results if not value.name.startswith("grad:")]
        return cls(
            tuple(state),
            (*changing, *seed),
            tuple(value for value in state if value.name not in changed),
            tuple(value for value in inputs if not is_state(value)),
            tuple(results),
        )


@dataclass(frozen=True, eq=False)
class Step:
    """A compiled program, made by `Program.compile`.

    state = step.init(model)
    for batch in batches:
        loss, state = step(state, *batch)
    step.save(state, "checkpoint")
    """

    platform: str
    """The platform, such as `cpu` or `cuda`."""
    donate: bool
    """True if a call reuses the memory of the state that is passed to it."""
    _roles: _Roles = field(repr=False)
    _placed: PlacedKernels = field(repr=False)
    _shardings: Mapping[str, Any] = field(repr=False)
    """jax's shardings, by name of the input or output."""
    _compiled: Any = field(repr=False)
    """jax's compiled function."""

    @property
    def kernels(self) -> tuple[KernelUse, ...]:
        """The distinct calls of composites, each with the kernel or faster alternative that takes
        it, and the reasons why kernels that were tried before do not."""
        return self._placed.uses

    @property
    def module(self) -> Module:
        """The compiled module, with kernels and alternatives instead of decompositions."""
        return self._placed.module

    @property
    def temporary_bytes(self) -> int:
        """The device memory that a call needs besides its inputs and results, in bytes, as counted
        by XLA."""
        return int(self._compiled.memory_analysis().temp_size_in_bytes)

    def init(self, weights: Any, *, optimizer: Any = None, seed: int = 0) -> State:
        """Create the first state: a copy of the weights, on the device.

        The optimizer's state starts as in PyTorch: with zeros in most cases. Buffers
        that a `state_dict` leaves out have their values at the export, unless they are passed.

        Args:
            weights: a torch module, or a mapping from names to arrays. A name is that of an input,
                such as `param:0.weight` or `state:0.weight.exp_avg`, or a name in the module's
                `state_dict`, such as `0.weight`.
            optimizer: a torch optimizer for the module's parameters, whose state is copied too.
            seed: the first random seed. The seeds of further steps are computed from it.

        Raises:
            ProgramError: values are missing, or have another shape or dtype.
        """
        return self._on_device(first_weights(self._roles.state, weights, optimizer, seed))

    def __call__(self, state: State, /, *batch: Any, **named: Any) -> tuple[Any, State]:
        """Run once.

        Args:
            state: of `init`, `load`, or the last call. With `donate`, it cannot be used again.
            batch: the positional arguments of the module, as torch tensors, numpy or jax arrays.
            named: the keyword arguments of the module.

        Returns:
            The result and the next state. The result is the loss if the program has an
            optimizer, and otherwise a dictionary of the program's outputs by name, such as `out:0`,
            or `loss` and `grad:0.weight`.

        Raises:
            ProgramError: the state was used already or is not of this step, or the batch does not
                fit the program.
            RunError: an array has another shape or dtype, or XLA or a kernel fails; the message
                names the kernel.
        """
        values = self._usable(state)
        arguments = self._batch(batch, named)
        roles = self._roles
        changing = tuple(values[value.name] for value in roles.changing)
        fixed = tuple(values[value.name] for value in roles.fixed)
        with enable_x64():
            try:
                changed, results = self._compiled(changing, fixed, arguments)
                if self._placed.has_kernels:  # raise the failure of a kernel in this call
                    import_jax().block_until_ready((changed, results))
            except (RuntimeError, ValueError) as error:
                text = f"the program failed on {self.platform}: {error}"
                suspects = _suspects(self._placed, str(error), self.platform)
                raise RunError(text + suspects) from error
        names = [value.name for value in roles.changing]
        following = State(
            {**values, **dict(zip(names, changed, strict=True))}, state.saved_as, state.others
        )
        named_results = {
            value.name: result for value, result in zip(roles.results, results, strict=True)
        }
        trains = any(name.startswith("param:") for name in names)
        if trains and list(named_results) == ["loss"]:
            return named_results["loss"], following
        return named_results, following

    def save(self, state: State, folder: str | os.PathLike[str]) -> None:
        """Write a state to a folder, completely or not at all. An existing checkpoint is replaced.

        `model.safetensors` holds parameters and buffers under the names of the module's
        `state_dict`, and `training.safetensors` the optimizer's state and the seed under the names
        of inputs. If processes share a mesh, all call this, and the first one writes.

        Raises:
            ProgramError: the state was used already, or the folder has other files.
            MissingPackageError: safetensors is not installed.
        """
        jax = import_jax()
        values = {name: np.asarray(_complete(value)) for name, value in self._usable(state).items()}
        if jax.process_index() == 0:
            checkpoint.write(state, values, folder)
        if jax.process_count() > 1:
            from jax.experimental import multihost_utils

            multihost_utils.sync_global_devices("the checkpoint is written")

    def load(self, folder: str | os.PathLike[str]) -> State:
        """Read a checkpoint that `save` wrote.

        Raises:
            ProgramError: the checkpoint is absent, damaged, or of another program.
            MissingPackageError: safetensors is not installed.
        """
        return self._on_device(checkpoint.read(self._roles.state, folder))

    def profile(self, batch: Any, *, state: State | None = None, seconds: float = 0.2) -> Profile:
        """Time the whole step, and each distinct call of a composite alone.

        Args:
            batch: the arguments of one call: a tuple or list, a dictionary of keyword arguments, or
                a single array.
            state: the state to run the step with. It is copied and stays usable. By default small
                random numbers.
            seconds: the time to measure each call for.

        Raises:
            ProgramError: the batch does not fit the program.
            RunError: XLA fails.
        """
        import jax.numpy as jnp

        positional, named = ((), batch) if isinstance(batch, Mapping) else (batch, {})
        if not isinstance(positional, list | tuple):
            positional = (positional,)
        inputs = self._roles.state
        start = self._on_device(State(small_values(inputs), {}, {})) if state is None else state
        with enable_x64():
            copies = {name: jnp.copy(value) for name, value in self._usable(start).items()}
        current = [State(copies, start.saved_as, start.others)]

        def run() -> None:
            results, current[0] = self(current[0], *positional, **named)
            import_jax().block_until_ready((results, dict(current[0].values)))

        (step_seconds,) = median_times([run], (), seconds=seconds)
        return profile_calls(self._placed, self.platform, step_seconds, seconds)

    # ---- compilation ----

    @classmethod
    def compile(
        cls,
        module: Module,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        described: DeviceMesh | None,
        *,
        keeps_decompositions: bool,
        platform: str | None,
        kernels: Kernels,
        ignored: Mapping[str, Collection[str]] | None,
        donate: bool,
        mesh: Any,
        cache: str | os.PathLike[str] | None,
    ) -> "Step":
        """Compile a program; see `Program.compile`."""
        jax = import_jax()
        roles = _Roles.from_values(inputs, outputs)
        if mesh is None:
            device = local_devices(platform)[0]
            named = platform_name(device)
            on_device = jax.sharding.SingleDeviceSharding(device)
            shardings = dict.fromkeys((value.name for value in (*inputs, *outputs)), on_device)
        else:
            check_mesh(mesh, described)
            named = platform_name(mesh.devices.flat[0])
            shardings = {
                value.name: sharding_on(mesh, value.sharding) for value in (*outputs, *inputs)
            }
        plain = module
        if described is not None:
            plain = without_shardings(module, inputs, outputs, described)
        # With several devices, no alternative was measured.
        alternatives = not keeps_decompositions and mesh is None
        kernels_placed = with_kernels(plain, kernels, ignored, named, alternatives=alternatives)
        run = jax_function(kernels_placed.module, platform=named)

        def value_shardings(values: Sequence[Value]) -> tuple[Any, ...]:
            return tuple(shardings[value.name] for value in values)

        def shapes(values: Sequence[Value]) -> tuple[Any, ...]:
            return tuple(
                jax.ShapeDtypeStruct(value.shape, numpy_dtype(value.dtype)) for value in values
            )

        parts = roles.changing, roles.fixed, roles.batch
        with enable_x64(), cached_in(cache):
            jitted = jax.jit(
                _function(run, roles, inputs, outputs),
                in_shardings=tuple(map(value_shardings, parts)),
                out_shardings=(value_shardings(roles.changing), value_shardings(roles.results)),
                donate_argnums=(0,) if donate else (),
                keep_unused=True,
                compiler_options=compiler_options(kernels_placed.module, named),
            )
            try:
                compiled = jitted.lower(*map(shapes, parts)).compile()
            except (RuntimeError, ValueError) as error:
                message = f"XLA cannot compile the program for {named}: {error}"
                raise RunError(message + _suspects(kernels_placed, str(error), named)) from error
        return cls(named, donate, roles, kernels_placed, shardings, compiled)

    # ---- state and batch ----

    def _on_device(self, weights: State) -> State:
        by_name = {value.name: value for value in self._roles.state}
        with enable_x64():
            values = {
                # Copy the weights: a call would write to their memory.
                name: placed(value, np.array(weights.values[name]), self._shardings[name])
                for name, value in by_name.items()
            }
        return State(values, weights.saved_as, weights.others)

    def _usable(self, state: Any) -> Mapping[str, Any]:
        """The tensors of a state, after a check that no call has used it before."""
        if not isinstance(state, State):
            raise ProgramError(
                f"the state must be one that init, load or a call has returned, not"
                f" {type(state).__name__}"
            )
        for value in self._roles.state:
            if value.name not in state.values or state.values[value.name].shape != value.shape:
                raise ProgramError(
                    f"the state belongs to another program: {value.name} is {value.type} here"
                )
        changing = self._roles.changing
        # All changing tensors are donated together.
        if changing and state.values[changing[0].name].is_deleted():
            raise ProgramError(
                "the state was passed to a call before, which reused its memory"
                f" ({changing[0].name} is deleted); continue with the state that this call"
                " returned, or compile with donate=False"
            )
        return state.values

    def _batch(self, positional: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        inputs = {value.name: value for value in self._roles.batch}
        values = dict(flattened("arg:", tuple(positional)))
        keywords = dict(flattened("kwarg:", named))
        self._check_arguments(inputs, len(positional), named)
        values |= keywords
        missing = [name for name in inputs if name not in values]
        if missing:
            raise ProgramError(
                f"the batch lacks {', '.join(missing)}; the program takes {_listed(inputs)}"
            )
        with enable_x64():
            return tuple(
                placed(value, _batch_array(value, values[name]), self._shardings[name])
                for name, value in inputs.items()
            )

    def _check_arguments(
        self, inputs: Mapping[str, Value], count: int, named: Mapping[str, Any]
    ) -> None:
        """Refuse arguments that are not read, except positional arguments before read arguments."""
        read = [
            int(index)
            for name in inputs
            if (index := name.removeprefix("arg:").partition(".")[0]).isdigit()
        ]
        most = max(read, default=-1) + 1
        if count > most:
            raise ProgramError(
                f"the batch has {count} positional arguments, and the program reads"
                f" {most or 'none'} of them; it takes {_listed(inputs)}"
            )
        tops = {name.removeprefix("kwarg:").partition(".")[0] for name in inputs}
        for name in named:
            if name not in tops:
                raise ProgramError(
                    f"the program reads no argument {name!r}{did_you_mean(name, sorted(tops))}; it"
                    f" takes {_listed(inputs)}; arguments that were not tensors at the export are"
                    " constants of the program"
                )


def _function(
    run: Callable[..., tuple[Any, ...]],
    roles: _Roles,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
) -> Callable[..., Any]:
    """The program as a function of changing state, other state and batch."""

    def step(changing: Any, fixed: Any, batch: Any) -> Any:
        values = dict(zip((v.name for v in roles.changing), changing, strict=True))
        values |= zip((v.name for v in roles.fixed), fixed, strict=True)
        values |= zip((v.name for v in roles.batch), batch, strict=True)
        got = list(zip(outputs, run(*(values[v.name] for v in inputs)), strict=True))
        following = {v.updates: result for v, result in got if v.updates is not None}
        by_name = {v.name: result for v, result in got}
        if SEED in values and SEED not in following:
            following[SEED] = next_seed(values[SEED])
        # The state comes first: jax pairs donated inputs with the first outputs of their types.
        return (
            tuple(following[v.name] for v in roles.changing),
            tuple(by_name[v.name] for v in roles.results),
        )

    return step


def with_kernels(
    module: Module,
    kernels: Kernels,
    ignored: Mapping[str, Collection[str]] | None,
    platform: str,
    *,
    alternatives: bool,
) -> PlacedKernels:
    """A module with the chosen kernels instead of composites.

    Args:
        alternatives: True if `auto` also uses faster alternatives to decompositions.
    """
    unlisted = f"{NOT_LISTED} for {platform}"
    if kernels is None:
        candidates, unlisted = named_kernels(module, {}), "the step was compiled without kernels"
    elif isinstance(kernels, Mapping):
        candidates, unlisted = named_kernels(module, kernels, ignored), "no kernel is given for it"
    elif ignored:
        raise ProgramError("ignored is for passed kernels; registries list `ignores` for theirs")
    elif kernels == "auto":
        candidates = listed_kernels(module, platform)
        if alternatives and platform in MEASURED:
            candidates = with_alternatives(candidates, platform)
    elif _are_names(kernels):
        candidates = listed_kernels(module, platform, tuple(kernels))
        unlisted = "none of the kernels that were named is listed for it"
    else:
        raise ProgramError(
            "kernels must be 'auto', None, names of composites with listed kernels, or a mapping"
            f" from composites to JAX functions or FFI targets, not {kernels!r}"
        )
    return place_kernels(module, candidates, platform=platform, unlisted=unlisted)


def _are_names(kernels: object) -> TypeGuard[Collection[str]]:
    return (
        isinstance(kernels, Collection)
        and not isinstance(kernels, str)
        and all(isinstance(name, str) for name in kernels)
    )


def _suspects(kernels: PlacedKernels, message: str, platform: str) -> str:
    """The part of an error message that names the kernels that failed, or may have failed."""
    if not kernels.has_kernels:
        return ""
    failing = failing_calls(kernels, message, platform)
    named = "; ".join(f"{use.kernel} for {use}" for use in failing)
    if named:
        return f"; the kernel that fails is {named}"
    used = "; ".join(f"{use.kernel} for {use}" for use in kernels.uses if use.kernel is not None)
    return f"; it has these kernels, none of which fails on operands of ones: {used}"


def _batch_array(value: Value, argument: Any) -> Any:
    if isinstance(argument, bool | int | float) and not value.shape:
        dtype = numpy_dtype(value.dtype)
        integral = np.issubdtype(dtype, np.integer)
        if isinstance(argument, bool) == (dtype == np.bool_) and not (
            integral and isinstance(argument, float)
        ):
            return np.asarray(argument, dtype)
    converted = array(value.name, argument)
    # Copy the array: the loader may reuse its memory while the step still runs.
    return np.array(converted) if isinstance(converted, np.ndarray) else converted


def _listed(inputs: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} ({value.type})" for name, value in inputs.items()) or "nothing"


def _complete(value: Any) -> Any:
    """An array with all its parts in this process."""
    if value.is_fully_addressable:
        return value
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(value, tiled=True)
