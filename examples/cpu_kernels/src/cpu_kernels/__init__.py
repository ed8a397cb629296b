"""Kernels for the CPU in place of composites: C++ behind XLA's typed FFI."""

from importlib.resources import files


def registry() -> str:
    """The path of the registry file. The entry point in pyproject.toml names this function."""
    return str(files("cpu_kernels").joinpath("registry.yaml"))
