"""drop_unused_functions: remove private functions that nothing reachable refers to."""

from .. import bindings
from ..module import Module


def drop_unused_functions(module: Module) -> Module:
    """Remove private functions that no public function reaches (MLIR's `symbol-dce`)."""
    result = module.copy_ir()
    bindings.run_pipeline(result, "builtin.module(symbol-dce)")
    return Module(result)
