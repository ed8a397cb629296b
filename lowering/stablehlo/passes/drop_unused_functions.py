"""drop_unused_functions: remove private functions that nothing reachable refers to."""

from .. import bindings
from ..bindings import IrModule
from ..in_place import in_place


@in_place
def drop_unused_functions(module: IrModule) -> None:
    """Remove private functions that no public function reaches (MLIR's `symbol-dce`)."""
    bindings.run_pipeline(module, "builtin.module(symbol-dce)")
