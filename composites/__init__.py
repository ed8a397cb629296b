"""Composites for PyTorch on XLA: each operator reaches StableHLO as one `stablehlo.composite`.

`XLA_COMPOSITE_OP=gelu,softmax python train.py` turns them on without a change to the script. From
code, use `enable`, `disable`, `enabled` and `active`. The decorator `composite` turns your own
function into a composite.

Every `import torch` loads this file, so each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from composites import jax, nn
    from composites.errors import (
        AllowlistError,
        CompositesError,
        CompositesWarning,
        DecompositionError,
        ExportError,
        InvalidCallError,
        LoweringError,
        MissingPackageError,
        ProgramError,
        RegistryError,
        UnsupportedCallError,
        UnusableFunctionError,
    )
    from composites.intermediates import intermediate
    from composites.operators.language_attention import paged_attention
    from composites.operators.linear_cross_entropy import linear_cross_entropy
    from composites.operators.transformers_caches import KVCache
    from lowering.activation import active, disable, enable, enabled
    from lowering.decorator import composite
    from lowering.export.api import export
    from lowering.export.generation import GenerationPrograms
    from lowering.export.program import Program
    from lowering.live.kept_state import KeptState, keep_on_devices
    from lowering.live.wrapping import wrap
    from lowering.stats.collect import stats
    from lowering.stats.data import Stats

    __version__: str

__all__ = [
    "AllowlistError", "CompositesError", "CompositesWarning", "DecompositionError", "ExportError",
    "GenerationPrograms", "InvalidCallError", "KVCache", "KeptState", "LoweringError",
    "MissingPackageError", "Program", "ProgramError", "RegistryError", "Stats",
    "UnsupportedCallError", "UnusableFunctionError", "__version__", "active", "composite",
    "disable", "enable", "enabled", "export", "intermediate", "jax", "keep_on_devices",
    "linear_cross_entropy", "nn", "paged_attention", "stats", "wrap",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(("active", "disable", "enable", "enabled"), "lowering.activation"),
    "Stats": "lowering.stats.data",
    "stats": "lowering.stats.collect",
    "GenerationPrograms": "lowering.export.generation",
    "KVCache": "composites.operators.transformers_caches",
    **dict.fromkeys(("KeptState", "keep_on_devices"), "lowering.live.kept_state"),
    "Program": "lowering.export.program",
    "composite": "lowering.decorator",
    "export": "lowering.export.api",
    "intermediate": "composites.intermediates",
    "linear_cross_entropy": "composites.operators.linear_cross_entropy",
    "paged_attention": "composites.operators.language_attention",
    "wrap": "lowering.live.wrapping",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    # Names are imported on first use: every `import torch` imports this package (see
    # lowering.autoload), and must not pay for parts that the program does not use.
    if name == "__version__":
        from importlib.metadata import version

        return version("torch-xla-composites")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name in ("jax", "nn"):
            return import_module(f"composites.{name}")
        return getattr(import_module(_HOMES.get(name, "composites.errors")), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from composites.errors import MissingPackageError, installing

        raise MissingPackageError(
            f"composites.{name} needs torch; {installing('torch-xla')}"
        ) from error
