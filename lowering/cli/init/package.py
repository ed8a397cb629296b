"""The files of a new package, rendered from templates. This module writes no files."""

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
"""The files of the package, and their templates."""

_SCHEMA = "src/{name}/registry.schema.json"
"""The schema beside the registry file, which names it, so that editors need no network."""


def render_files(name: str) -> dict[str, str]:
    """Render the files of a package. Return the texts by path."""
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
