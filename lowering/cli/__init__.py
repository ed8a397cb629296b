"""The `composites` command.

| module | commands |
|---|---|
| `app` | the application, `--version`, `env` |
| `registry` | `check`, `format`, `list`, `schema`, `watch`, `codegen`, `docs`, `generate` |
| `contracts` | `lock`, `diff` |
| `show` | `show` |
| `export` | `export` |
| `run` | `run` |
| `verify` | `verify` |
| `suggest` | `suggest` |
| `stablehlo` | `inspect`, `lower`; both work without torch |
| `compare` | `compare`, which also works without torch |
| `doctor` | `doctor` |

`output` prints the tables of all commands.
"""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from lowering.cli.app import app

        app()
    except ModuleNotFoundError as error:
        from composites.errors import installing

        package = (error.name or "").partition(".")[0]
        if package not in ("typer", "rich", "packaging", "pydantic"):  # newer typer needs pydantic
            raise
        sys.exit(f"error: the command line needs {package}; {installing('cli')}")
