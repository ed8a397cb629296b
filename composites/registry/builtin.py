"""The path of the built-in registry. This module does not import torch."""

from importlib.resources import files
from pathlib import Path


def builtin_registry_path() -> Path:
    """Return the built-in registry.yaml, in an installed package or at the root of a checkout."""
    installed = Path(str(files("composites").joinpath("registry.yaml")))
    return installed if installed.exists() else installed.parent.parent / "registry.yaml"
