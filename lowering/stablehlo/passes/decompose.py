"""decompose: replace composites with the operations of their decompositions.

%1 = stablehlo.composite "ptxla.gelu" %0 {..}   =>   %1 = stablehlo.multiply %0, %cst
                                                     ..
"""

from collections.abc import Iterable

from .. import bindings
from ..composites import composite_name, find_composites, select
from ..errors import UnsupportedOperationError
from ..module import Module
from ..symbols import functions, target
from .drop_unused_functions import drop_unused_functions
from .flatten_calls import flatten_calls


def decompose(
    module: Module,
    only: str | Iterable[str] | None = None,
    keep: str | Iterable[str] | None = None,
) -> Module:
    """Inline composites by name or glob.

    Args:
        module: the module to start from.
        only: names or globs of the composites to inline; by default all.
        keep: names or globs of the composites to keep, even if `only` matches them.

    Raises:
        UnknownCompositeError: a name or glob matches no composite of the module.
        UnsupportedOperationError: a decomposition has no body, or all functions are private.
        SizeError: the composites are nested so often that too many operations would be made.
    """
    composites = find_composites(module.ir)
    existing = {composite_name(composite) for composite in composites}
    chosen = existing if only is None else select(existing, only)
    chosen = chosen - (set() if keep is None else select(existing, keep))
    if not chosen:
        return module
    inlined = {target(composite) for composite in composites if composite_name(composite) in chosen}
    by_name = functions(module.ir)
    for composite in composites:
        name = target(composite)
        if name in inlined and name in by_name and not by_name[name].regions[0].blocks:
            raise UnsupportedOperationError(
                f"@{name}, the decomposition of {composite_name(composite)}, is a declaration;"
                f" give it a body, or keep the composite (--keep {composite_name(composite)})"
            )
    result = module.copy_ir()
    kept = sorted(existing - chosen)
    options = f"{{except={','.join(kept)}}}" if kept else ""
    bindings.run_pipeline(
        result, f"builtin.module(func.func(stablehlo-legalize-composite-to-call{options}))"
    )
    return drop_unused_functions(flatten_calls(Module(result), only=inlined))
