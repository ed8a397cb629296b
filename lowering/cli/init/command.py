"""`composites init`: the command."""

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from composites.files import replace_folder
from lowering.cli.errors import clear_errors, fail, fail_usage


def init(
    name: Annotated[
        str,
        typer.Argument(
            help="The name of the package, and the namespace of its composites and operators.",
            show_default=False,
        ),
    ],
    directory: Annotated[
        Path | None,
        typer.Option(help="The folder to write; default: NAME.", show_default=False),
    ] = None,
) -> None:
    """Write an example package of a vendor, with tests that pass.

    The package has a registry file, decompositions in PyTorch and in JAX, an operator of its own
    with a backward, a kernel, a training script, tests that call verify and compare, and a workflow
    for GitHub.

    Example: composites init acme
    """
    with clear_errors():
        from lowering.cli.init.name import problem_with
        from lowering.cli.init.package import render_files

        problem = problem_with(name)
        if problem is not None:
            fail_usage(problem)
        folder = Path(name) if directory is None else directory
        files = render_files(name)
        replace_folder(folder, files, partial(_check_empty, folder))
    typer.echo(f"{folder}: {len(files)} files. Now install the package and run its tests:")
    typer.echo(f"  cd {shlex.quote(str(folder))}")
    typer.echo("  pip install -e '.[test]'")
    typer.echo("  pytest")


def _check_empty(folder: Path, names: Sequence[str]) -> None:
    if names:
        fail(f"{folder} is not empty (it has {names[0]}); name a new folder with --directory")
