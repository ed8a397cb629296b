"""The path of the built-in registry. Nothing here imports torch."""

from importlib.resources import files
from pathlib import Path


def builtin_registry_path() -> Path:
    """The built-in registry.yaml, inside an installed package or at the root of a checkout."""
    installed = Path(str(files("composites").joinpath("registry.yaml")))
    return installed if installed.exists() else installed.parent.parent / "registry.yaml"
