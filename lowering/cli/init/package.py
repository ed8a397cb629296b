"""The files of a new package, rendered from templates. Nothing is written here."""

import json

import jinja2

import composites
from composites.registry.document import json_schema

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
"""Files of the package, and the templates of their text."""

_SCHEMA = "src/{name}/registry.schema.json"
"""Beside the registry file, whose first line tells editors so. An editor then needs no network."""


def files_of(name: str) -> dict[str, str]:
    """The text of each file of a package with this name, by its path."""
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
