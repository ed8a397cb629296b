"""A PJRT plug-in for the CPU, of the package xla-cpu-pjrt, which jax does not load by itself."""

from importlib.util import find_spec
from pathlib import Path


def cpu_plugin() -> Path:
    """The plug-in's library, whose device calls its platform `cpu`."""
    spec = find_spec("xla_plugins.xla_cpu_pjrt")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).with_name("xla_cpu_pjrt.so")
