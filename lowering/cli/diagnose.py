"""`composites diagnose`: a program on a device and on a reference, composite by composite."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from composites.errors import did_you_mean
from composites.files import write_atomic
from lowering.cli.compare import load_arrays, read_program
from lowering.cli.errors import clear_errors, fail, fail_usage
from lowering.cli.output import NodeDataFile, check_folders, print_table, write_node_data
from lowering.stablehlo import Limits, Module, clean
from lowering.stablehlo.comparison.inputs import typical_inputs
from lowering.stablehlo.composites import Signature
from lowering.stablehlo.diagnosis.clock import Clock
from lowering.stablehlo.diagnosis.devices import BACKENDS, Device, on_platform, with_kernels
from lowering.stablehlo.diagnosis.diagnose import Replay, diagnose
from lowering.stablehlo.kernels import distinct, place_kernels
from lowering.stablehlo.run import local_devices

_PLUGIN = "diagnosed"
"""The name that a plugin's platform gets."""


def diagnose_program(
    program: Annotated[
        Path, typer.Argument(help="A folder of composites export, or a StableHLO file.")
    ],
    platform: Annotated[
        str | None,
        typer.Option(help="A platform of jax, such as cuda. With --kernels, cpu by default."),
    ] = None,
    plugin: Annotated[
        Path | None, typer.Option(metavar="FILE.so", help="A PJRT plugin, whose device runs it.")
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(metavar="|".join(BACKENDS), help="A compiler that runs it on the CPU."),
    ] = None,
    kernels: Annotated[
        str | None,
        typer.Option(
            metavar="REGISTRY|auto",
            help="Run the kernels that this registry file lists for the platform; auto: those of"
            " all registries.",
        ),
    ] = None,
    f64: Annotated[
        bool,
        typer.Option("--f64", help="Compute the reference in f64, and not in the program's types."),
    ] = False,
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Arrays for the program, as numpy.savez writes them: all in order, or some by the"
            " names of inputs, such as arg:0. By default, weights of the folder and random values.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="The largest error that is right, relative to the largest value of a result. The"
            " default is that of composites compare.",
        ),
    ] = None,
    time: Annotated[
        bool,
        typer.Option(
            "--time",
            help="Also time each part alone, and show what a kernel that is as fast as the device"
            " copies and multiplies could win.",
        ),
    ] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write all calls as JSON.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also write the worst call: program.mlir, and its operands, operands.npz. Both"
            " diagnose and compare take them.",
        ),
    ] = None,
    node_data: NodeDataFile = None,
) -> None:
    """Find the composites that bring errors in: run a program on a device and on the CPU.

    Each composite runs on the operands of the reference, which shows errors of its own, and on
    those that the device has computed, which shows how errors add up. The exit code is 1 if an
    error is larger than allowed.

    Example: composites diagnose step --platform cuda

    Example: composites diagnose step --kernels registry.yaml --save worst
    """
    if save is not None and (save / "manifest.json").exists():
        fail_usage(f"--save {save} holds a program already; name another folder")
    check_folders(json, node_data)
    with clear_errors():
        module, arrays = _program(program, inputs)
        device, names = _device(module, platform, plugin, backend, kernels, f64)
        clock = None
        if time:
            clock = Clock.create(module, device, platform or ("cpu" if plugin is None else _PLUGIN))
        diagnosis, worst = diagnose(
            module, arrays, device, f64=f64, tolerance=tolerance, kernels=names, clock=clock
        )
        print_table(diagnosis.table())
        if json is not None:
            write_atomic(json, diagnosis.to_json())
        if node_data is not None:
            write_node_data(node_data, diagnosis.node_data(), clean(module), module)
        if save is not None:
            _save(worst, save)
    if diagnosis.problems:
        fail("\nerror: ".join(diagnosis.problems))


def _program(path: Path, inputs: Path | None) -> tuple[Module, Sequence[Any]]:
    """The program, and an array for each of its inputs."""
    if not (path / "manifest.json").is_file():
        module = read_program(path)
        if inputs is not None:
            return module, list(load_arrays(inputs, module).values())
        return module, typical_inputs(module)
    from lowering.export.example_inputs import example_inputs
    from lowering.export.program import Program

    loaded = Program.load(path, limits=Limits())
    names = [value.name for value in loaded.inputs]
    arrays = {} if inputs is None else load_arrays(inputs, loaded.module, names)
    return loaded.module, example_inputs(loaded, path, arrays)


def _device(
    module: Module,
    platform: str | None,
    plugin: Path | None,
    backend: str | None,
    kernels: str | None,
    f64: bool,
) -> tuple[Device, Mapping[Signature, str]]:
    """The device that the options name, and the names of its kernels by call."""
    if sum(each is not None for each in (platform, plugin, backend)) > 1:
        fail_usage("give one of --platform, --plugin and --backend")
    if backend is not None:
        if kernels is not None:
            fail_usage("--backend does not take --kernels, which are for platforms of jax")
        if backend not in BACKENDS:
            hint = did_you_mean(backend, list(BACKENDS))
            fail_usage(f"there is no backend {backend!r}{hint} (there are {', '.join(BACKENDS)})")
        return BACKENDS[backend], {}
    if platform is None and plugin is None and kernels is None and not f64:
        fail_usage(
            "nothing to diagnose; name a device (--platform, --plugin, --backend), or --kernels,"
            " or let the CPU be compared with --f64"
        )
    named = platform or ("cpu" if plugin is None else _register(plugin))
    local_devices(named)  # raises if there are none
    if kernels is None:
        return on_platform(named), {}
    from lowering.export.listed_kernels import listed_kernels

    file = None if kernels == "auto" else Path(kernels)
    placed = place_kernels(module, listed_kernels(module, named, file=file), platform=named)
    uses = {call: placed.use(call, 0) for call in distinct(module)}
    if not placed.has_kernels:
        reasons = dict.fromkeys(f"{use.composite}: {use.reason}" for use in uses.values())
        fail("; ".join([f"no kernel of {kernels} takes a call of the program", *reasons]))
    names = {call: use.kernel or f"none: {use.reason}" for call, use in uses.items()}
    return with_kernels(placed, named), names


def _register(plugin: Path) -> str:
    """Let jax load a PJRT plugin when it starts. Returns the name of its platform."""
    if not plugin.is_file():
        fail(f"there is no file {plugin}")
    variable = "PJRT_NAMES_AND_LIBRARY_PATHS"
    others = os.environ.get(variable)
    named = f"{_PLUGIN}:{plugin.resolve()}"
    os.environ[variable] = f"{others},{named}" if others else named
    return _PLUGIN


def _save(worst: Replay, folder: Path) -> None:
    """Write a call and its operands."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    worst.part.write(folder / "program.mlir")
    np.savez(folder / "operands.npz", *worst.arrays)
    typer.echo(f"the worst call is {folder}; run it with --inputs {folder / 'operands.npz'}")
