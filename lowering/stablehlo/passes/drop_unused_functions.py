"""drop_unused_functions: remove private functions that nothing reachable refers to."""

from .. import bindings
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..ir_types import IrModule
from ..symbols import functions, is_private


@in_place
def drop_unused_functions(module: IrModule) -> None:
    """Remove private functions that no public function reaches (MLIR's `symbol-dce`).

    Raises:
      UnsupportedOperationError: all functions are private, so that no function would remain.
    """
    defined = functions(module).values()
    if defined and all(map(is_private, defined)):
        raise UnsupportedOperationError(
            "all functions of the module are private, so nothing would remain; remove `private`"
            " from the function that is called from outside"
        )
    bindings.run_pipeline(module, "builtin.module(symbol-dce)")
