"""clean: turn torch_xla's output into text that people and consumers can read."""

from ..module import Module
from ..pipeline import Pass, run_passes
from .chlo import legalize_mhlo_custom_calls
from .decompositions import (
    drop_unused_functions,
    flatten_calls,
    rename_decompositions,
    share_decompositions,
    unshare_decompositions,
)
from .expand_tuples import expand_tuples
from .leftovers import strip_leftovers


def clean_passes(*, share: bool = True) -> list[Pass]:
    """The passes of `clean` in order, for use in a longer pipeline."""
    return [
        strip_leftovers,
        flatten_calls,
        expand_tuples,
        drop_unused_functions,
        share_decompositions if share else unshare_decompositions,
        legalize_mhlo_custom_calls,  # after sharing, when there are fewer operations
        rename_decompositions,
    ]


def clean(module: Module, *, share: bool = True) -> Module:
    """Remove wrapper calls, duplicate and unused functions and `mhlo.*`, and give readable names.

    With `share=False`, every composite call gets its own decomposition. Equal programs give
    byte-identical text, and a clean module does not change.
    """
    return run_passes(module, clean_passes(share=share))
