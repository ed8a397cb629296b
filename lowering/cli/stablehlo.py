"""Commands for StableHLO files: `inspect` and `lower`, which do not need torch.

Another process reads the file first, because a damaged file may crash the process.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from composites.contracts.lock import read_lock
from composites.functions import load_function
from lowering.cli.errors import clear_errors, fail, fail_usage
from lowering.cli.output import (
    AsJson,
    NodeDataFile,
    check_folders,
    print_json,
    print_table,
    write_node_data,
)
from lowering.stablehlo import (
    TARGETS,
    Limits,
    Module,
    OptionError,
    Pass,
    cast_table,
    casts,
    clean_passes,
    composite_table,
    decompose,
    drop_cast_roundtrips,
    from_quantized_types,
    legalize_chlo,
    run_passes,
    target_passes,
    to_custom_call,
    to_quantized_types,
    unmerge_batch_dimensions,
    widen_dots,
)
from lowering.stablehlo import bind as bind_functions
from lowering.stablehlo import inspect as inspect_module
from lowering.stablehlo.inspection.against import against_table, not_understood

StableHLOFile = Annotated[
    Path, typer.Argument(help="StableHLO text, bytecode or portable artifact; - for stdin.")
]

_DEFAULT = Limits()
_FORMS = {"--bind": "NAME=MODULE:FUNCTION", "--custom-call": "NAME=TARGET"}
Seconds = Annotated[
    float, typer.Option(min=0.001, max=1e8, help="Time limit for reading the file, in seconds.")
]
Memory = Annotated[
    float, typer.Option(min=0.001, max=1e8, help="Memory limit for reading the file, in GiB.")
]


def inspect(
    file: StableHLOFile,
    list_casts: Annotated[
        bool, typer.Option("--casts", help="Show conversions between types, not composites.")
    ] = False,
    json: AsJson = False,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="LOCK",
            help="Show only the composites that do not match the contracts of this lock.",
        ),
    ] = None,
    node_data: NodeDataFile = None,
    seconds: Seconds = _DEFAULT.seconds,
    memory: Memory = _DEFAULT.memory / 2**30,
) -> None:
    """Show the composites of a module: counts, types, attributes and their share of the work.

    With --casts, show every conversion between types instead: the types, the operations around it,
    the number of such conversions, and the bytes that they move.

    With --against, show the composites whose name, version, attributes or operands differ from a
    lock, with the reasons. The exit code is 1 if there are any.
    """
    if (against is not None) + list_casts + (node_data is not None) > 1:
        fail_usage("give one of --against, --casts and --node-data")
    check_folders(node_data)
    with clear_errors():
        module = _module(file, seconds, memory)
        if against is not None:
            _against(module, against, json)
            return
        if list_casts:
            cast_report = casts(module)
            text, table = cast_report.to_json(), cast_table(cast_report)
        else:
            report = inspect_module(module)
            text, table = report.to_json(), composite_table(report)
        if json:
            typer.echo(text)
        else:
            print_table(table)
        if node_data is not None:
            write_node_data(node_data, module, module)


def _against(module: Module, path: Path, as_json: bool) -> None:
    report = inspect_module(module)
    problems = not_understood(report, read_lock(path))
    if as_json:
        rows = [
            {"composite": item.call.name, "version": item.call.version, "count": item.call.count}
            | {"reason": item.reason}
            for item in problems
        ]
        print_json({"not_understood": rows})
    elif problems:
        print_table(against_table(problems, path.name))
    else:
        typer.echo(f"all {len(report.composites)} composites match {path}")
    if problems:
        raise typer.Exit(1)


def lower(
    file: StableHLOFile,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="The file to write: text, or bytecode if it ends in .mlirbc."
        ),
    ],
    clean: Annotated[bool, typer.Option(help="First flatten calls and share functions.")] = True,
    bind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MODULE:FUNCTION",
            help="Use a JAX function as the decomposition of this composite (NAME or"
            " NAME@VERSION).",
        ),
    ] = None,
    ignore_attribute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ATTRIBUTE,…",
            help="Bind a function that has no parameter for these attributes.",
        ),
    ] = None,
    custom_call: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TARGET",
            help="Turn this composite (NAME or NAME@VERSION) into a typed-FFI custom call.",
        ),
    ] = None,
    drop_attribute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ATTRIBUTE,…",
            help="Leave these attributes of the composite out of its custom call.",
        ),
    ] = None,
    to_quantized: Annotated[
        bool,
        typer.Option(
            "--to-quantized-types",
            help="Quantize and dequantize with StableHLO's quantized types.",
        ),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--decompose", metavar="GLOB", help="Inline the composites that match."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="Keep the composites that match. Without --decompose, all others are inlined.",
        ),
    ] = None,
    from_quantized: Annotated[
        bool,
        typer.Option(
            "--from-quantized-types",
            help="Replace quantized types by integers, and their operations by arithmetic.",
        ),
    ] = False,
    chlo: Annotated[
        bool, typer.Option("--legalize-chlo", help="Expand CHLO operations to StableHLO.")
    ] = False,
    drop_casts: Annotated[
        bool,
        typer.Option(
            "--drop-cast-roundtrips",
            help="Drop casts to a wider type and back around data movement.",
        ),
    ] = False,
    widen: Annotated[
        bool,
        typer.Option(
            "--widen-dots", help="Let products return the f32 (or i32) that they are cast to."
        ),
    ] = False,
    unmerge: Annotated[
        bool,
        typer.Option(
            "--unmerge-batch-dimensions",
            help="Keep the batch dimensions of products separate, for partitioners.",
        ),
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(TARGETS),
            help="Finally, replace the operations that this consumer lacks.",
        ),
    ] = None,
    portable: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Write a portable artifact for this StableHLO version; for .mlirbc, the default is"
            " 1.13.0.",
        ),
    ] = None,
    seconds: Seconds = _DEFAULT.seconds,
    memory: Memory = _DEFAULT.memory / 2**30,
) -> None:
    """Lower the composites of a module, by passes in the order of their options."""
    check_folders(output)
    with clear_errors():
        module = _module(file, seconds, memory)
        passes: list[Pass] = [*clean_passes()] if clean else []
        if _is_named(bind, ignore_attribute, "--bind", "--ignore-attribute"):
            functions = {n: load_function(f) for n, f in pairs("--bind", bind or []).items()}
            ignored = listed("--ignore-attribute", ignore_attribute or [])
            passes.append(partial(bind_functions, bindings=functions, ignored=ignored))
        if _is_named(custom_call, drop_attribute, "--custom-call", "--drop-attribute"):
            targets = pairs("--custom-call", custom_call or [])
            ignored = listed("--drop-attribute", drop_attribute or [])
            passes.append(partial(to_custom_call, targets=targets, ignored=ignored))
        inlined = partial(decompose, only=only or None, keep=keep or None)
        for is_requested, pass_ in (
            (to_quantized, to_quantized_types),
            (only or keep, inlined),
            (from_quantized, from_quantized_types),
            (chlo, legalize_chlo),
            # Before widen_dots, which would widen products because of these casts.
            (drop_casts, drop_cast_roundtrips),
            (widen, widen_dots),
            (unmerge, unmerge_batch_dimensions),
        ):
            passes += [pass_] if is_requested else []
        passes += [] if target is None else target_passes(target)
        run_passes(module, passes).write(output, portable=portable)


def _is_named(
    kernels: list[str] | None, attributes: list[str] | None, flag: str, attributes_flag: str
) -> bool:
    """Return whether the user names kernels. Attributes without kernels are an error."""
    if attributes and not kernels:
        raise OptionError(f"{attributes_flag} needs {flag}, which names the composite")
    return bool(kernels)


def _module(file: Path, seconds: float, memory: float) -> Module:
    """Read the module of a file, after another process has read the file within limits."""
    limits = Limits(seconds, int(memory * 2**30))
    return Module.from_bytes(read_bytes(file), str(file), limits=limits)


def read_bytes(file: Path) -> bytes:
    """Read the content of a file, or of stdin for `-`."""
    if str(file) == "-":
        return sys.stdin.buffer.read()
    text = file / "program.mlir"
    if text.is_file():  # a folder that `composites export` wrote
        fail(f"{file} is a folder; write {text}, or program.mlirbc for its artifact")
    programs = sorted(str(inner.parent) for inner in file.glob("*/program.mlir"))
    if programs:  # such as the programs of a model for generation
        fail(f"{file} is a folder of programs; name one of them: {', '.join(programs)}")
    if file.is_dir():
        fail(f"{file} is a folder; name a StableHLO file")
    return file.read_bytes()


def pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """Parse `NAME=VALUE` options to a dictionary.

    Raises:
        OptionError: an item is not a pair, or a name appears twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not (name and separator and value):
            raise OptionError(f"{flag} {text!r}: write it as {_FORMS.get(flag, 'NAME=VALUE')}")
        if name in values:
            raise OptionError(f"{flag} names {name!r} twice")
        values[name] = value
    return values


def listed(flag: str, texts: Sequence[str]) -> dict[str, frozenset[str]]:
    """Parse `NAME=VALUE,VALUE` options to sets of values by name.

    Raises:
        OptionError: see `pairs`; or a value is empty.
    """
    lists = {name: values.split(",") for name, values in pairs(flag, texts).items()}
    for name, values in lists.items():
        if not all(values):
            raise OptionError(f"{flag} {name}: write it as NAME=VALUE,VALUE")
    return {name: frozenset(values) for name, values in lists.items()}
