"""`composites init`: write a small package of a vendor, which installs and passes its tests."""

import json
import keyword
import re
import shlex
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Annotated

import typer

import composites
from composites.files import replace_folder
from composites.registry.document import json_schema
from composites.registry.model import BUILTIN_NAMESPACE
from lowering.cli.errors import clear_errors, fail, fail_usage

# A name of a Python module, a namespace of composites and of torch.library, and a distribution,
# which may not end in an underscore. Names of distributions ignore case, hence small letters.
_NAME = re.compile(r"[a-z]([a-z0-9_]*[a-z0-9])?", re.ASCII)

_OF_PYTORCH = frozenset({"aten", "c10d", "inductor", "prim", "prims", "quantized", "xla"})
"""Namespaces of operators that come with PyTorch and are not names of modules."""
_TEMPLATES = {
    ".github/workflows/test.yml": "workflow.yml",
    ".gitignore": "gitignore",
    "README.md": "README.md",
    "examples/train.py": "train.py",
    "pyproject.toml": "pyproject.toml",
    "src/{name}/__init__.py": "package.py",
    "src/{name}/decompositions.py": "decompositions.py",
    "src/{name}/jax_decompositions.py": "jax_decompositions.py",
    "src/{name}/kernels.py": "kernels.py",
    "src/{name}/operators.py": "operators.py",
    "src/{name}/registry.yaml": "registry.yaml",
    "tests/test_{name}.py": "test_package.py",
}
"""The files of the package, and their templates."""

_SCHEMA = "src/{name}/registry.schema.json"
"""The schema beside the registry file, which names it, so that editors need no network."""


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
        problem = problem_with(name)
        if problem is not None:
            fail_usage(problem)
        folder = Path(name) if directory is None else directory
        files = render_files(name)

        def check(names: Sequence[str]) -> None:
            if names:
                fail(
                    f"{folder} is not empty (it has {names[0]}); name a new folder with --directory"
                )

        replace_folder(folder, files, check)
    typer.echo(f"{folder}: {len(files)} files. Now install the package and run its tests:")
    typer.echo(f"  cd {shlex.quote(str(folder))}")
    typer.echo("  pip install -e '.[test]'")
    typer.echo("  pytest")


def problem_with(name: str) -> str | None:
    """The reason why a package cannot have a name, with advice; None if it can."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        return (
            f"{name!r} cannot be the name of a package: write small letters, digits and _, with a"
            " letter first and no _ last, that are not keywords of Python, such as acme"
        )
    spec = PathFinder.find_spec(name)
    # A folder without __init__.py has no origin. It is allowed: a clone has the package's name.
    is_module = name in sys.stdlib_module_names or (spec is not None and spec.origin is not None)
    if is_module or name in (BUILTIN_NAMESPACE, *_OF_PYTORCH):
        return f"the name {name!r} is taken; choose another name"
    return None


def render_files(name: str) -> dict[str, str]:
    """Render the files of a package. Return the texts by path."""
    import jinja2  # no other command of the command line needs it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lowering.cli.init"),
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    values = {"name": name, "version": composites.__version__}
    texts = {
        path.format(name=name): environment.get_template(f"{template}.jinja").render(values)
        for path, template in _TEMPLATES.items()
    }
    return texts | {_SCHEMA.format(name=name): json.dumps(json_schema(), indent=2) + "\n"}
