"""The `composites` command.

| module | commands |
|---|---|
| `app` | the application, `--version`, `env` |
| `registry` | `check`, `list`, `schema`, `codegen`, `docs`, `generate` |
| `contracts` | `lock`, `diff` |
| `export` | `export` |
| `run` | `run` |
| `verify` | `verify` |
| `stablehlo` | `inspect`, `lower`; both work without torch, and in a child process |

`output` prints the tables of all commands.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from composites.cli.app import app
        from composites.cli.child import run_in_child
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(
            f"error: the command line needs {error.name}; pip install 'torch-xla-composites[cli]'"
        )
    app(obj=run_in_child)
