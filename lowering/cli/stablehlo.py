"""Commands for StableHLO files: `inspect` and `lower`. Neither needs torch.

Another process reads the file first, which a damaged file may crash.
"""

import inspect as signatures
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

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
    COMMAND_LINE,
    TARGETS,
    Limits,
    Module,
    Pass,
    cast_table,
    casts,
    composite_table,
    run_passes,
    target_passes,
)
from lowering.stablehlo import inspect as inspect_module
from lowering.stablehlo.options import Option

StableHLOFile = Annotated[
    Path, typer.Argument(help="StableHLO text, bytecode or portable artifact; - for stdin.")
]

_DEFAULT = Limits()
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

    With --casts, show every conversion between types instead: what is converted, what reads the
    result, how often, and how many bytes this moves.

    With --against, show the composites whose name, version, attributes or operands are not those of
    a lock, and why. The exit code is 1 if there are any.
    """
    if (against is not None) + list_casts + (node_data is not None) > 1:
        fail_usage("give one of --against, --casts and --node-data")
    check_folders(node_data)

    def work(module: Module) -> None:
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

    _on_file(work, file, seconds, memory)


def _against(module: Module, path: Path, as_json: bool) -> None:
    from composites.contracts.lock import read_lock
    from lowering.stablehlo.inspection.against import against_table, not_understood

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


def lower_command() -> Callable[..., None]:
    """Make `composites lower` with the options that the passes declare."""

    def lower(
        *,
        file: Path,
        output: Path,
        seconds: float,
        memory: float,
        target: str | None = None,
        portable: str | None = None,
        **values: Any,
    ) -> None:
        def work(module: Module) -> None:
            passes: list[Pass] = []
            for declared in COMMAND_LINE:
                passes += declared.passes([values[option.name] for option in declared.options])
            if target is not None:
                passes += target_passes(target)
            run_passes(module, passes).write(output, portable=portable)

        check_folders(output)
        _on_file(work, file, seconds, memory)

    lower.__doc__ = "Lower the composites of a module, by passes in the order of their options."
    command: Any = lower
    command.__signature__ = signatures.Signature(list(_parameters()))
    command.__annotations__ = {p.name: p.annotation for p in _parameters()}
    return lower


def _on_file(work: Callable[[Module], None], file: Path, seconds: float, memory: float) -> None:
    """Do the work of a command on a file, which another process has read within limits."""
    with clear_errors():
        limits = Limits(seconds, int(memory * 2**30))
        work(Module.from_bytes(bytes_of(file), str(file), limits=limits))


def bytes_of(file: Path) -> bytes:
    """The content of a file, or of stdin for `-`."""
    if str(file) == "-":
        return sys.stdin.buffer.read()
    text = file / "program.mlir"
    if text.is_file():  # a folder that `composites export` wrote
        fail(f"{file} is a folder; write {text}, or program.mlirbc for its artifact")
    programs = sorted(str(inner.parent) for inner in file.glob("*/program.mlir"))
    if programs:  # as those of a model that generates
        fail(f"{file} is a folder of programs; name one of them: {', '.join(programs)}")
    return file.read_bytes()


def _parameters() -> Iterator[signatures.Parameter]:
    yield _parameter("file", StableHLOFile)
    about_output = typer.Option(
        "-o", "--output", help="The file to write: text, or bytecode if it ends in .mlirbc."
    )
    yield _parameter("output", Annotated[Path, about_output])
    for declared in COMMAND_LINE:
        for option in declared.options:
            yield _of_pass(option)
    about_target = typer.Option(
        metavar="|".join(TARGETS),
        help="Finally, replace the operations that this consumer lacks.",
    )
    yield _parameter("target", Annotated[str | None, about_target], None)
    about_portable = typer.Option(
        metavar="VERSION",
        help="Write a portable artifact for this StableHLO version; for .mlirbc, the default is"
        " 1.13.0.",
    )
    yield _parameter("portable", Annotated[str | None, about_portable], None)
    yield _parameter("seconds", Seconds, _DEFAULT.seconds)
    yield _parameter("memory", Memory, _DEFAULT.memory / 2**30)


def _of_pass(option: Option) -> signatures.Parameter:
    if option.metavar is None:
        about = typer.Option(option.flag, help=option.help)
        return _parameter(option.name, Annotated[bool, about], option.default)
    about = typer.Option(option.flag, metavar=option.metavar, help=option.help)
    return _parameter(option.name, Annotated[list[str] | None, about], None)


def _parameter(
    name: str, annotation: Any, default: Any = signatures.Parameter.empty
) -> signatures.Parameter:
    kind = signatures.Parameter.KEYWORD_ONLY
    return signatures.Parameter(name, kind, annotation=annotation, default=default)
