"""Kernels for NVIDIA GPUs in place of composites: cuDNN's attention, and Pallas."""

from importlib.resources import files


def registry() -> str:
    """The path of the registry file. The entry point in pyproject.toml names this function."""
    return str(files("gpu_kernels").joinpath("registry.yaml"))
