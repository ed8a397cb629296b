"""The scripts of benchmarks/, which are no part of the installed package."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).parents[3]


def import_script(name: str) -> ModuleType:
    """The module `benchmarks.<name>`. The packages it imports are those that are installed, so the
    repository comes last on the path."""
    sys.path.append(str(REPOSITORY))
    try:
        return importlib.import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(str(REPOSITORY))
