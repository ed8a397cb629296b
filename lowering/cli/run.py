"""`composites run`: run a script and show the composites in its graphs."""

from pathlib import Path
from typing import Annotated

import typer

from composites.child_processes import signal_name
from composites.settings import CHECK_EVERY, COMPILE
from lowering.cli.errors import clear_errors, fail
from lowering.cli.output import print_table
from lowering.frontends.chosen import is_installed

_WITHOUT_TORCH_XLA = (
    "; without torch_xla, PyTorch programs have composites in composites.export, and under"
    ' torch.compile(…, backend="composites"), which --compile makes the default'
)


def run(
    script: Annotated[str, typer.Argument(help="A Python script.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Its arguments.", show_default=False)
    ] = None,
    compile: Annotated[
        bool,
        typer.Option(
            "--compile",
            help='Have torch.compile use backend="composites" instead of its default, "inductor".',
        ),
    ] = False,
    check_every: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            show_default=False,
            help='Compare the kernels in graphs of backend="composites" with the decompositions'
            " that they replace, at the first of each N calls of a graph.",
        ),
    ] = None,
) -> None:
    """Run a script and show the composites in its graphs.

    Further tables show the chosen decompositions, the calls that were not claimed, with reasons,
    and the entries that were on and caught nothing. Unless GLIBC_TUNABLES is set, it becomes
    glibc.malloc.hugetlb=1, for memory on the CPU.

    Example: XLA_COMPOSITE_OP=gelu,softmax composites run train.py

    Example: XLA_COMPOSITE_OP=all composites run --compile --check-every 100 train.py
    """
    from lowering.cli.watch import (
        checks_table,
        composites_table,
        decompositions_table,
        fallbacks_table,
        watch,
    )

    if not Path(script).is_file():
        fail(f"there is no file {script}")
    with clear_errors():
        variables = {COMPILE.name: "1"} if compile else {}
        if check_every is not None:
            variables[CHECK_EVERY.name] = str(check_every)
        watched = watch([script, *(arguments or [])], variables)
    if watched.graphs:
        print_table(composites_table(watched))
    decompositions = decompositions_table(watched.stats)
    if decompositions is not None:
        print_table(decompositions)
    missed = fallbacks_table(watched.stats)
    if missed is not None:
        print_table(missed)
    if watched.stats.checks.rows:
        print_table(checks_table(watched.stats.checks))
    elif check_every is not None:
        typer.echo('no graph of backend="composites" has a kernel to check')
    idle = watched.stats.idle_listed()
    if idle:
        typer.echo(f"on, and caught no call: {idle}")
    if not watched.graphs and watched.exit_code == 0:
        why = '; move its model to the device "xla"' if is_installed() else _WITHOUT_TORCH_XLA
        fail(f"{script} ran no graph on an XLA device, and JAX compiled none{why}")
    if watched.exit_code < 0:
        typer.echo(f"{script} was ended by {signal_name(-watched.exit_code)}", err=True)
        raise typer.Exit(128 - watched.exit_code)  # as in a shell
    raise typer.Exit(watched.exit_code)
