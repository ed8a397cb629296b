"""`composites export`: write a module's inference or training step to files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from composites.errors import CompositesError, UnusableFunctionError
from composites.functions import load_function
from composites.user_code import error_line
from lowering.cli.errors import clear_errors, fail_usage
from lowering.cli.output import print_table
from lowering.stablehlo import TARGETS

FactoryArgument = Annotated[
    str,
    typer.Argument(
        help="FILE.py:FUNCTION or package.module:FUNCTION; the function returns"
        " (module, args) or (module, args, kwargs).",
        show_default=False,
    ),
]
"""The argument of `export` and `suggest`: a function that returns a module and its example
arguments."""


def export(
    factory: FactoryArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write.")],
    train: Annotated[
        bool,
        typer.Option("--train", help="Export loss and gradients instead of the module's outputs."),
    ] = False,
    optimizer: Annotated[
        str | None,
        typer.Option(help="package.module:FACTORY, such as torch.optim:AdamW; implies --train."),
    ] = None,
    ops: Annotated[
        str, typer.Option(help="Composites to turn on, as in XLA_COMPOSITE_OP; default: all.")
    ] = "",
    decompositions: Annotated[
        str | None,
        typer.Option(help="Decompositions of the composites, as in XLA_COMPOSITE_DECOMPOSITION."),
    ] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="Also write the module's weights.")
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(TARGETS), help="The consumer; operations that it lacks are replaced."
        ),
    ] = None,
    portable: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="StableHLO version of the artifact; default: 1.13.0, for jaxlib 0.7.1 and newer.",
        ),
    ] = None,
    mesh: Annotated[
        str,
        typer.Option(metavar="AXIS=SIZE,…", help="The device mesh, such as data=2,model=4."),
    ] = "",
    shard: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN=AXIS,…",
            help="Shardings of inputs: an axis, several with + between them, or - for each"
            " dimension, such as '*.q_proj.weight=model,-'. Repeatable.",
        ),
    ] = None,
    frontend: Annotated[
        str | None,
        typer.Option(
            metavar="xla|fx",
            help="The frontend that records the program: torch_xla, or PyTorch with JAX. By default"
            " torch_xla if it is installed and no size varies.",
        ),
    ] = None,
    dynamic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARGUMENT:DIM=NAME",
            help="A dimension whose size varies, such as input_ids:0=batch, or with bounds,"
            " input_ids:1=seq,min=2,max=512. Repeatable; one name is one size.",
        ),
    ] = None,
) -> None:
    """Export a module's inference or training step as StableHLO with composites."""
    with clear_errors():
        from composites.allowlist import split_allowlist
        from lowering.export.api import export as export_module

        varying = _dynamic_shapes(dynamic or ())
        shardings, sizes = dict(map(_sharding, shard or ())), _mesh(mesh)
        module, args, kwargs = load_factory(factory)
        program = export_module(
            module,
            args,
            kwargs,
            train=train,
            optimizer=load_function(optimizer) if optimizer else None,
            ops=split_allowlist(ops) or None,
            decompositions=decompositions,
            target=target,
            mesh=sizes,
            shardings=shardings,
            dynamic_shapes=varying,
            frontend=frontend or ("fx" if varying else None),
        )
        values = program.module_weights(module) if weights else None
        program.save(output, portable=portable, weights=values)
    table = Table("composite", "calls", title=Text(str(output)))
    for name, count in sorted(program.composites.items()):
        table.add_row(name, str(count))
    print_table(table)


def _mesh(text: str) -> dict[str, int] | None:
    """Parse a mesh such as `data=2,model=4`; None for an empty text."""
    if not text:
        return None
    sizes = {}
    for item in text.split(","):
        name, _, size = map(str.strip, item.partition("="))
        if not (name and size.isdecimal()):
            fail_usage(f"--mesh {text}: write names and sizes of axes, such as data=2,model=4")
        sizes[name] = int(size)
    return sizes


def _dynamic_shapes(texts: Sequence[str]) -> dict[str, Any] | None:
    """Parse texts such as `input_ids:1=seq,max=512` to the `dynamic_shapes` of torch.export. Bounds
    of a name may be part of any text with that name."""
    axes: list[tuple[str, int, str]] = []
    bounds: dict[str, dict[str, int]] = {}
    for text in texts:
        subject, _, description = text.partition("=")
        argument, _, axis = subject.rpartition(":")
        name, *parts = map(str.strip, description.split(","))
        limits = dict(part.split("=", 1) for part in parts if "=" in part)
        are_numbers = all(limit.isdecimal() for limit in (axis, *limits.values()))
        are_bounds = len(limits) == len(parts) and limits.keys() <= {"min", "max"}
        if not (argument and name.isidentifier() and are_numbers and are_bounds):
            fail_usage(
                f"--dynamic {text}: write an argument, a dimension and a name, such as"
                " input_ids:0=batch or input_ids:1=seq,min=2,max=512"
            )
        axes.append((argument, int(axis), name))
        bounds.setdefault(name, {}).update({key: int(v) for key, v in limits.items()})
    if not axes:
        return None
    from torch.export import Dim

    for name, sizes in bounds.items():
        if sizes.get("max", sizes.get("min", 0) + 1) <= sizes.get("min", 0):
            fail_usage(f"--dynamic: the largest size of {name} must be above the smallest one")
    dims = {name: Dim(name, **sizes) for name, sizes in bounds.items()}
    shapes: dict[str, Any] = {}
    for argument, number, name in axes:
        shapes.setdefault(argument, {})[number] = dims[name]
    return shapes


def _sharding(text: str) -> tuple[str, tuple[tuple[str, ...] | None, ...]]:
    """Parse a sharding such as `*.weight=model,-` to a pattern and its spec."""
    pattern, equals, spec = text.rpartition("=")
    if not (pattern and equals):
        fail_usage(f"--shard {text}: write a pattern and axes, such as '*.q_proj.weight=model,-'")
    parts = [part.strip() for part in spec.split(",")]
    return pattern, tuple(None if part in ("", "-") else tuple(part.split("+")) for part in parts)


def load_factory(target: str) -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
    """Call a factory and return the module, its example arguments and its keyword arguments.

    Raises:
        UnusableFunctionError: the function does not exist, raises, or returns something else.
    """
    factory = load_function(target)
    try:
        value = factory()
    except CompositesError:
        raise
    except Exception as error:
        raise UnusableFunctionError(
            f"{error_line(error)}{target} raised {type(error).__name__}: {error}"
        ) from error
    parts = (*value, {})[:3] if isinstance(value, tuple) and len(value) in (2, 3) else (None,) * 3
    if not (isinstance(parts[1], Sequence) and isinstance(parts[2], Mapping)):
        raise UnusableFunctionError(
            f"{target} must return (module, args) or (module, args, kwargs), where args is a tuple"
            f" and kwargs a dict; it returned {_described(value)}"
        )
    return parts


def _described(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in value) or 'nothing'}"
    return type(value).__name__
