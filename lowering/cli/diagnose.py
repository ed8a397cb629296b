"""`composites diagnose`: a program on a device and on a reference, composite by composite."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from composites.errors import did_you_mean
from composites.files import write_atomic
from composites.lazy_modules import np
from composites.registry.listed_kernels import listed_tolerances
from composites.registry.model import KERNEL_PLATFORMS
from lowering.cli.compare import Tolerance, load_arrays, read_program
from lowering.cli.errors import clear_errors, fail, fail_usage
from lowering.cli.output import NodeDataFile, check_folders, print_table, write_node_data
from lowering.stablehlo import Limits, Module, clean
from lowering.stablehlo.comparison.inputs import typical_inputs
from lowering.stablehlo.composites import Signature
from lowering.stablehlo.diagnosis.bisection import Steps
from lowering.stablehlo.diagnosis.bisection import bisect as bisect_kernels
from lowering.stablehlo.diagnosis.clock import Clock
from lowering.stablehlo.diagnosis.devices import BACKENDS, Device, on_platform, with_kernels
from lowering.stablehlo.diagnosis.diagnose import Diagnoser, ReplayPart
from lowering.stablehlo.kernels import PlacedKernels, distinct, place_kernels
from lowering.stablehlo.run import import_jax, local_devices, main_types

_PLUGIN = "diagnosed"
"""The platform of a PJRT plug-in that the command line does not name."""
_STEPS = 10
"""The number of steps of a program with an optimizer: errors of a gradient show in later losses."""


def diagnose_program(
    program: Annotated[
        Path, typer.Argument(help="A folder of composites export, or a StableHLO file.")
    ],
    platform: Annotated[
        str | None,
        typer.Option(
            help="A platform of jax, such as cuda. With --kernels, cpu by default. With --plugin,"
            " the platform for which registries list the plug-in's kernels."
        ),
    ] = None,
    plugin: Annotated[
        Path | None, typer.Option(metavar="FILE.so", help="A PJRT plug-in, whose device runs it.")
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
        typer.Option("--f64", help="Compute the reference in f64 instead of the program's types."),
    ] = False,
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Arrays for the program, as numpy.savez writes them: all in order, or some by the"
            " names of inputs, such as arg:0. By default, weights of the folder and random values.",
        ),
    ] = None,
    tolerance: Tolerance = None,
    time: Annotated[
        bool,
        typer.Option(
            "--time",
            help="Also time each part alone, and show the time that a kernel at the device's rates"
            " of copies and products could save.",
        ),
    ] = False,
    bisect: Annotated[
        bool,
        typer.Option(
            "--bisect",
            help="Find the smallest sets of kernels with which the error of the loss exceeds the"
            " tolerance.",
        ),
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            show_default=False,
            help="The steps that --bisect runs with each set; default: 10 of a program with an"
            " optimizer, 1 of any other.",
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write all calls as JSON.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also write the worst call of each wrong composite, in a folder with its number:"
            " program.mlir, and its operands, operands.npz. Both diagnose and compare take them.",
        ),
    ] = None,
    node_data: NodeDataFile = None,
) -> None:
    """Find the composites that introduce errors: run a program on a device and on the CPU.

    Each composite runs on the operands of the reference, which shows its own errors, and on
    operands that the device has computed, which shows how errors add up. The exit code is 1 if an
    error is larger than allowed.

    Example: composites diagnose step --platform cuda

    Example: composites diagnose step --kernels registry.yaml --save worst

    Example: composites diagnose step --kernels registry.yaml --bisect --steps 20
    """
    if steps is not None and not bisect:
        fail_usage("--steps is for --bisect")
    if bisect and (kernels is None or f64 or time or save is not None or node_data is not None):
        fail_usage("--bisect needs --kernels, and takes no --f64, --time, --save or --node-data")
    check_folders(json, node_data)
    with clear_errors():
        module, run = _load(program, inputs)
        named = _platform(platform, plugin, backend, kernels, f64)
        if bisect and kernels is not None:
            run = replace(run, count=steps or run.count, platform=named)
            _bisect(_placed(module, kernels, named), run, tolerance, json)
            return
        device, names = _device(module, named, backend, kernels)
        clock = Clock.create(module, device, named) if time else None
        own = listed_tolerances(None if kernels in (None, "auto") else Path(str(kernels)))
        diagnoser = Diagnoser(
            module, device, f64=f64, tolerance=tolerance, tolerances=own, kernels=names, clock=clock
        )
        diagnosis, replays = diagnoser.run(run.inputs)
        print_table(diagnosis.table())
        if json is not None:
            write_atomic(json, diagnosis.to_json())
        if node_data is not None:
            write_node_data(node_data, clean(module), module, *diagnosis.node_data())
        if save is not None:
            _save(replays, save)
    if diagnosis.problems:
        fail("\nerror: ".join(diagnosis.problems))


def _load(path: Path, inputs: Path | None) -> tuple[Module, Steps]:
    """Read a StableHLO file, or the folder of an exported program, and the arrays of a file.

    The program has as many steps as are needed to show an error of a gradient.
    """
    if not (path / "manifest.json").is_file():
        module = read_program(path)
        saved = () if inputs is None else load_arrays(inputs, module).values()
        arrays = typical_inputs(module) if inputs is None else tuple(saved)
        return module, Steps(arrays, 1, {}, range(len(main_types(module)[1])))
    from lowering.export.example_inputs import example_inputs
    from lowering.export.program import Program
    from lowering.export.state import SEED

    program = Program.load(path, limits=Limits())
    names = [value.name for value in program.inputs]
    named = {} if inputs is None else load_arrays(inputs, program.module, names)
    outputs = dict(enumerate(program.outputs))
    updates = {n: names.index(v.updates) for n, v in outputs.items() if v.updates is not None}
    # Errors of the gradients that an optimizer used show in the next losses.
    losses = [n for n in outputs if n not in updates and not outputs[n].name.startswith("grad:")]
    compared = losses if updates and losses else list(outputs)
    seed = names.index(SEED) if SEED in names else None
    values = example_inputs(program, path, named)
    return program.module, Steps(values, _STEPS if updates else 1, updates, compared, seed)


def _bisect(
    placed: PlacedKernels, steps: Steps, tolerance: float | None, json: Path | None
) -> None:
    if steps.count > 1 and not steps.updates:
        fail_usage(
            "no output of the program is the next value of an input, so that all steps are equal;"
            " leave --steps out, or export the step with its optimizer"
        )
    bisection = bisect_kernels(placed, steps, tolerance)
    if json is not None:
        write_atomic(json, bisection.to_json())
    if bisection.problems:
        fail("\nerror: ".join(bisection.problems))
    count = f"{steps.count} step{'s' * (steps.count != 1)}"
    allowed = f"no error is above {bisection.tolerance:.2g} in {count}"
    typer.echo(f"with all kernels ({len(placed.taken)}), {allowed}")


def _platform(
    platform: str | None, plugin: Path | None, backend: str | None, kernels: str | None, f64: bool
) -> str:
    """The platform of jax that the options name; `cpu` for another compiler on the CPU."""
    if backend is not None:
        if platform is not None or plugin is not None:
            fail_usage("--backend takes no --platform or --plugin")
        if kernels is not None:
            fail_usage("--backend does not take --kernels, which are for platforms of jax")
        if backend not in BACKENDS:
            hint = did_you_mean(backend, list(BACKENDS))
            fail_usage(f"there is no backend {backend!r}{hint} (there are {', '.join(BACKENDS)})")
    elif platform is None and plugin is None and kernels is None and not f64:
        fail_usage(
            "nothing to diagnose; name a device (--platform, --plugin, --backend) or --kernels, or"
            " compare the CPU with f64 (--f64)"
        )
    if plugin is None:
        named = platform or "cpu"
    elif platform in KERNEL_PLATFORMS:
        fail_usage(f"--platform {platform} is jax's own; give the plug-in another name")
    else:
        named = platform or _PLUGIN
        _register(plugin, named)
    local_devices(named)  # raises if the platform has no devices
    return named


def _device(
    module: Module, platform: str, backend: str | None, kernels: str | None
) -> tuple[Device, Mapping[Signature, str]]:
    """The device that the options name, and the names of its kernels by call."""
    if backend is not None:
        return BACKENDS[backend], {}
    if kernels is None:
        return on_platform(platform), {}
    placed = _placed(module, kernels, platform)
    uses = {call: placed.use(call, 0) for call in distinct(module)}
    names = {call: use.kernel or f"none: {use.reason}" for call, use in uses.items()}
    for call, inner in placed.inside.items():
        names[call] += f"; inside: {', '.join(inner)}" if inner else ""
    return with_kernels(placed, platform), names


def _placed(module: Module, kernels: str, platform: str) -> PlacedKernels:
    """The program with the kernels of a registry file, or of all registries."""
    from lowering.export.listed_kernels import listed_kernels

    file = None if kernels == "auto" else Path(kernels)
    placed = place_kernels(module, listed_kernels(module, platform, file=file), platform=platform)
    if not placed.has_kernels:
        uses = [placed.use(call, 0) for call in distinct(module)]
        reasons = dict.fromkeys(f"{use.composite}: {use.reason}" for use in uses)
        fail("; ".join([f"no kernel of {kernels} takes a call of the program", *reasons]))
    return placed


def _register(plugin: Path, platform: str) -> None:
    """Make jax load a PJRT plug-in as a platform when it starts."""
    if not plugin.is_file():
        fail(f"there is no file {plugin}")
    variable = "PJRT_NAMES_AND_LIBRARY_PATHS"
    previous = os.environ.get(variable)
    named = f"{platform}:{plugin.resolve()}"
    os.environ[variable] = f"{previous},{named}" if previous else named
    jax = import_jax()
    if jax.config.jax_platforms:  # the variable JAX_PLATFORMS
        jax.config.update("jax_platforms", f"{jax.config.jax_platforms},{platform},cpu")


def _save(replays: Mapping[int, ReplayPart], folder: Path) -> None:
    """Write each call and its operands to a folder."""
    for number, replay in replays.items():
        target = folder / str(number)
        target.mkdir(parents=True, exist_ok=True)
        replay.part.write(target / "program.mlir")
        np.savez(target / "operands.npz", *replay.arrays)
        typer.echo(f"call {number} is {target}; run it with --inputs {target / 'operands.npz'}")
