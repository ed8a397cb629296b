"""legalize_chlo: leave pure StableHLO, for consumers that do not know CHLO."""

from .. import bindings
from ..module import Module


def legalize_chlo(module: Module) -> Module:
    """Expand every CHLO operation (the official `chlo-legalize-to-stablehlo`)."""
    result = module.copy_ir()
    bindings.run_pipeline(result, "builtin.module(func.func(chlo-legalize-to-stablehlo))")
    return Module(result)
