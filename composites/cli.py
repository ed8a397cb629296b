"""The `composites` command: generate hooks, check registries, say what is in force.

The commands for StableHLO files (`inspect`, `lower`) are those of `lowering.stablehlo.cli`, and
run where torch is not installed.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from composites.errors import CompositesError
from composites.settings import VARIABLES
from lowering.stablehlo import StableHLOError
from lowering.stablehlo.cli import register

app = typer.Typer(
    help="PyTorch operators as stablehlo.composite: registries, hooks and StableHLO files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out = Console()
_err = Console(stderr=True)

RegistryFile = Annotated[Path, typer.Argument(help="A registry file.", show_default=False)]


@app.command()
def codegen(
    registry: RegistryFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The Python file to write.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where the file is not current.")
    ] = False,
) -> None:
    """Generate the lowering hooks of a registry."""
    with _clear_errors():
        from composites.registry.validation import load_registry
        from lowering.codegen import generate

        text = generate(load_registry(registry), registry.name)
    _generated(text, output, f"composites codegen {registry} -o {output}", check=check)


@app.command()
def docs(
    registry: RegistryFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The Markdown file to write.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where the file is not current.")
    ] = False,
) -> None:
    """Write the reference of a registry: operands, attributes and results of each composite."""
    with _clear_errors():
        from composites.registry.reference import reference
        from composites.registry.validation import load_registry

        text = reference(load_registry(registry), registry.name)
    _generated(text, output, f"composites docs {registry} -o {output}", check=check)


@app.command()
def check(
    registries: Annotated[list[Path], typer.Argument(help="Registry files.", show_default=False)],
) -> None:
    """Check registry files and report everything that is wrong with them."""
    with _clear_errors():
        from composites.registry.catalog import load_catalog

        load_catalog([str(path) for path in registries])
    _out.print(f"{len(registries)} file{'s' if len(registries) > 1 else ''} without a problem")


@app.command(name="list")
def list_entries() -> None:
    """List all entries, those of vendors too, and which of them XLA_COMPOSITE_OP turns on.

    `composites docs FILE` writes everything about the entries of a file.
    """
    with _clear_errors():
        from composites.allowlist import resolve, split_allowlist
        from composites.registry.catalog import load_catalog
        from composites.settings import ALLOWLIST

        catalog = load_catalog()
        on = resolve(split_allowlist(ALLOWLIST.read()), catalog)
    table = Table()
    for heading in ("composite", "catches", "attributes"):
        table.add_column(heading, overflow="fold")
    table.add_column("on", no_wrap=True, min_width=len("yes"))
    for entry in catalog:
        functions = dict.fromkeys(target.partition(":")[2] for target in entry.functions)
        table.add_row(
            f"{entry.qualified} v{entry.version}",
            entry.op or ", ".join(functions),
            ", ".join(attribute.name for attribute in entry.attributes),
            "yes" if entry in on else "",
        )
    _out.print(table)


@app.command()
def schema() -> None:
    """Print the JSON Schema of registry files, for editors."""
    from composites.registry.document import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command()
def env() -> None:
    """Show the environment variables that are read, and their values now."""
    table = Table(Column("variable", no_wrap=True), "value", "meaning", "example")
    for variable in VARIABLES:
        table.add_row(variable.name, variable.read(), variable.meaning, variable.example)
    _out.print(table)


@app.command()
def export(
    factory: Annotated[
        str,
        typer.Argument(
            help="FILE.py:FUNCTION or package.module:FUNCTION; the function returns"
            " (module, args) or (module, args, kwargs).",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write.")],
    train: Annotated[
        bool, typer.Option("--train", help="Loss and gradients, not the module's outputs.")
    ] = False,
    optimizer: Annotated[
        str | None,
        typer.Option(help="package.module:FACTORY, such as torch.optim:AdamW; implies --train."),
    ] = None,
    ops: Annotated[
        str, typer.Option(help="Composites to turn on, as in XLA_COMPOSITE_OP; default: all.")
    ] = "",
    weights: Annotated[
        bool, typer.Option("--weights", help="Also write the module's weights.")
    ] = False,
    share: Annotated[
        bool, typer.Option("--share/--no-share", help="One function for equal decompositions.")
    ] = True,
    portable: Annotated[
        str | None, typer.Option(metavar="VERSION", help="StableHLO version of the artifact.")
    ] = None,
) -> None:
    """Export a module's inference or training step as StableHLO with composites."""
    with _clear_errors():
        from composites.allowlist import split_allowlist
        from composites.exporting import export as export_module
        from composites.factories import load_factory, load_function

        module, args, kwargs = load_factory(factory)
        program = export_module(
            module,
            args,
            kwargs,
            train=train,
            optimizer=load_function(optimizer) if optimizer else None,
            ops=split_allowlist(ops) or None,
            share_decompositions=share,
        )
        values = program.module_weights(module) if weights else None
        program.save(output, portable=portable, weights=values)
    table = Table("composite", "calls", title=f"{output}")
    for name, count in sorted(program.composites.items()):
        table.add_row(name, str(count))
    _out.print(table)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    script: Annotated[str, typer.Argument(help="A Python script.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Its arguments.", show_default=False)
    ] = None,
) -> None:
    """Run a script and show which composites were in the graphs that it ran.

    Example: XLA_COMPOSITE_OP=gelu,softmax composites run train.py
    """
    from composites.watch import composites_table, watch

    if not Path(script).is_file():
        _fail(f"{script} is no file")
    watched = watch([script, *(arguments or [])])
    if watched.graphs:
        _out.print(composites_table(watched))
    elif watched.exit_code == 0:
        _fail(f"{script} ran no graph on an XLA device")
    raise typer.Exit(watched.exit_code)


register(app)


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Report what the user can put right without a traceback."""
    try:
        yield
    except (CompositesError, StableHLOError) as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "torch_xla"):
            raise
        _fail(f"this command needs {error.name}; pip install 'torch-xla-composites[torch]'")


def _generated(text: str, output: Path, command: str, *, check: bool) -> None:
    """Write a generated file, or fail where it is not what it should be."""
    current = output.exists() and output.read_text(encoding="utf-8") == text
    if check and not current:
        _fail(f"{output} is stale; run: {command}")
    if not check and not current:
        _write(output, text)


def _fail(message: str) -> None:
    _err.print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def _write(path: Path, text: str) -> None:
    """Write the whole file or nothing."""
    if not path.parent.is_dir():
        _fail(f"{path.parent} is no directory")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
