"""`composites inspect` and `composites lower`: this package on the command line.

`register(app)` adds both commands to a typer application. A mistake of the user is one line on
stderr and exit code 1, and leaves no output file behind.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import StableHLOError
from .files import write_atomic
from .inspection import cast_table, casts, composite_table, html_page
from .inspection import inspect as inspect_module
from .module import Module
from .passes.bind import bind
from .passes.clean import clean_passes
from .passes.decompose import decompose
from .passes.drop_cast_roundtrips import drop_cast_roundtrips
from .passes.legalize_chlo import legalize_chlo
from .passes.to_custom_call import to_custom_call
from .passes.widen_dots import widen_dots
from .pipeline import Pass, run_passes


def register(app: typer.Typer) -> None:
    """Add the commands `inspect` and `lower` to an application."""
    app.command("inspect")(inspect)
    app.command("lower")(lower)


def inspect(
    file: Annotated[Path, typer.Argument(help="StableHLO text, bytecode or portable artifact.")],
    list_casts: Annotated[
        bool, typer.Option("--casts", help="Show what is cast between types, not composites.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one self-contained page with a graph.")
    ] = None,
) -> None:
    """Show the composites of a module: counts, types, attributes and their share of the work.

    With --casts, show every conversion between types instead: what is converted, what reads it,
    how often, and how many bytes that moves.
    """
    with _errors():
        module = Module.read(file)
        if html is not None:
            write_atomic(html, html_page(module))
        if list_casts:
            cast_report = casts(module)
            text, table = cast_report.to_json(), cast_table(cast_report)
        else:
            report = inspect_module(module)
            text, table = report.to_json(), composite_table(report)
        if json:
            typer.echo(text)
        elif list_casts or html is None:
            _print_table(table)


def lower(
    file: Annotated[Path, typer.Argument(help="StableHLO text, bytecode or portable artifact.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Text; bytecode if the name ends in .mlirbc.")
    ],
    bound: Annotated[
        list[str] | None,
        typer.Option(
            "--bind",
            metavar="NAME=MODULE:FUNCTION",
            help="Use a JAX function as this composite's decomposition.",
        ),
    ] = None,
    custom_call: Annotated[
        list[str] | None,
        typer.Option(
            "--custom-call",
            metavar="NAME=TARGET",
            help="Turn this composite into a typed-FFI custom call.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--decompose", metavar="GLOB", help="Inline composites with such a name."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="GLOB",
            help="Leave composites with such a name; alone, it inlines all others.",
        ),
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean/--no-clean", help="First flatten calls and share functions.")
    ] = True,
    chlo: Annotated[
        bool, typer.Option("--legalize-chlo", help="Expand CHLO operations to StableHLO.")
    ] = False,
    cast_roundtrips: Annotated[
        bool,
        typer.Option(
            "--drop-cast-roundtrips",
            help="Drop casts to a wider type and back around data movement.",
        ),
    ] = False,
    widen: Annotated[
        bool,
        typer.Option(
            "--widen-dots", help="Let products give the f32 (or i32) that they are cast to."
        ),
    ] = False,
    portable: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Write a portable artifact for this StableHLO."),
    ] = None,
) -> None:
    """Lower a module: clean, bind, custom calls, decompose, CHLO and casts, in this order."""
    with _errors():
        passes: list[Pass] = clean_passes() if clean else []
        if bound:
            functions = {name: _load(path) for name, path in _pairs("--bind", bound).items()}
            passes.append(partial(bind, bindings=functions))
        if custom_call:
            targets = _pairs("--custom-call", custom_call)
            passes.append(partial(to_custom_call, targets=targets))
        if only or keep:
            passes.append(partial(decompose, only=only or None, keep=keep or None))
        if chlo:
            passes.append(legalize_chlo)
        if cast_roundtrips:  # first: a wide type that is gone asks for no wider product
            passes.append(drop_cast_roundtrips)
        if widen:
            passes.append(widen_dots)
        run_passes(Module.read(file), passes).write(output, portable=portable)


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    """`NAME=VALUE` options as a dictionary."""
    pairs: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not (name and separator and value):
            raise StableHLOError(f"{option} {text!r}: write it as NAME=VALUE")
        if name in pairs:
            raise StableHLOError(f"{option} names {name!r} twice")
        pairs[name] = value
    return pairs


def _load(path: str) -> Callable[..., Any]:
    """The function that `package.module:function` names; modules beside the user are found."""
    module_name, separator, function_name = path.partition(":")
    if not (module_name and separator and function_name):
        raise StableHLOError(f"--bind {path!r}: write the function as package.module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise StableHLOError(f"--bind {path!r}: cannot import {module_name}: {error}") from error
    function: Callable[..., Any] | None = getattr(module, function_name, None)
    if function is None or not callable(function):
        raise StableHLOError(f"--bind {path!r}: {module_name} has no function {function_name!r}")
    return function


def _print_table(table: Any) -> None:
    from rich.console import Console

    Console().print(table)


@contextmanager
def _errors() -> Iterator[None]:
    """Turn a user's mistake into one line on stderr and exit code 1."""
    try:
        yield
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {named}{error.strerror or error}", err=True)
    except StableHLOError as error:
        typer.echo(f"error: {error}", err=True)
    else:
        return
    raise typer.Exit(1)
