"""`composites compare`: kernels against the decompositions in a StableHLO file, without torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from composites.functions import load_function
from composites.lazy_modules import np
from composites.registry.listed_kernels import listed_tolerances
from lowering.cli.errors import clear_errors, fail
from lowering.cli.output import AsJson, NodeDataFile, check_folders, print_table, write_node_data
from lowering.cli.stablehlo import listed, pairs, read_bytes
from lowering.stablehlo import Limits, Module, clean, compare, comparison_table, register_targets
from lowering.stablehlo.dtypes import static_tensor
from lowering.stablehlo.run import main_types

_MODULE = "program.mlir"
"""The program's file in a folder of `composites export`."""
Tolerance = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="The largest error, relative to the largest value of a result. By default 1e-12 for"
        " f64, 1e-5 for f32, 4e-3 for f16, 2e-2 for bf16, by the least precise type, or what the"
        " entries of registries set.",
    ),
]


def compare_kernels(
    program: Annotated[
        Path,
        typer.Argument(help="A StableHLO file, a folder of composites export, or - for stdin."),
    ],
    bind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MODULE:FUNCTION",
            help="Compare a JAX function with this composite (NAME or NAME@VERSION).",
        ),
    ] = None,
    custom_call: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TARGET",
            help="Compare a target of XLA's typed FFI with this composite.",
        ),
    ] = None,
    library: Annotated[
        list[Path] | None,
        typer.Option(help="A shared library with handlers, whose symbols are targets."),
    ] = None,
    ignore_attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=ATTRIBUTE,…", help="Attributes that the kernel may ignore."),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Arrays for the program, in the order of its inputs, as numpy.savez writes them. "
            "By default, operands of calls are random.",
        ),
    ] = None,
    tolerance: Tolerance = None,
    json: AsJson = False,
    node_data: NodeDataFile = None,
) -> None:
    """Compare kernels with the decompositions of their composites.

    Each distinct call of a composite runs both on the same operands, and is a row of the table. The
    exit code is 1 if a kernel is refused, fails, or differs by more than the tolerance.

    Example: composites compare step.mlir --bind ptxla.softmax=kernels:softmax
    """
    check_folders(node_data)
    with clear_errors():
        targets = pairs("--custom-call", custom_call or [])
        register_targets(targets.values(), library or [])
        functions = {
            name: load_function(path) for name, path in pairs("--bind", bind or []).items()
        }
        module = read_program(program)
        comparison = compare(
            module,
            functions,
            targets=targets,
            ignored=listed("--ignore-attribute", ignore_attribute or []),
            inputs=None if inputs is None else list(load_arrays(inputs, module).values()),
            tolerance=tolerance,
            tolerances=listed_tolerances(),
        )
        if json:
            typer.echo(comparison.to_json())
        else:
            print_table(comparison_table(comparison))
        if node_data is not None:
            graph = clean(module)
            write_node_data(node_data, graph, module, *comparison.node_data(graph))
    if comparison.problems:
        fail("\nerror: ".join(comparison.problems))


def read_program(path: Path) -> Module:
    """Read the program of a file or a folder. Another process reads the file first, because it may
    be damaged."""
    file = path / _MODULE if (path / _MODULE).is_file() else path
    return Module.from_bytes(read_bytes(file), str(file), limits=Limits())


def load_arrays(path: Path, module: Module, names: Sequence[str] = ()) -> dict[str, Any]:
    """Load the arrays of a .npz file by name, in the order of the file.

    Args:
        path: the file.
        module: the program that the arrays are for. Arrays whose type numpy has lost get its types.
        names: the names of the program's inputs, if arrays have these names or their order.
    """
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
    except (ValueError, zipfile.BadZipFile, AttributeError, TypeError):
        fail(f"{path}: not a .npz file; write the arrays with numpy.savez")
    types = main_types(module)[0]
    if len(names) == len(arrays) and arrays.keys().isdisjoint(names):
        arrays = dict(zip(names, arrays.values(), strict=True))
    by_name = dict(zip(names or arrays, types, strict=False))
    return {name: _typed(array, by_name.get(name)) for name, array in arrays.items()}


def _typed(array: Any, type_: str | None) -> Any:
    """An array with its original type of ml_dtypes, of which numpy saves only the bytes."""
    static = None if type_ is None or array.dtype.kind != "V" else static_tensor(type_)
    return array if static is None else array.view(static[1])
