"""legalize_chlo: replace CHLO with StableHLO, for consumers that do not know CHLO."""

from collections.abc import Sequence

from .. import bindings
from ..bindings import find_operations, ir
from ..in_place import in_place
from ..insertion import replace_operation
from ..ir_types import IrModule
from ..symbols import CUSTOM_CALL


@in_place
def legalize_chlo(module: IrModule, *, kept: Sequence[str] = ()) -> None:
    """Expand CHLO operations with the official pass `chlo-legalize-to-stablehlo`.

    Args:
        kept: names of operations with one operand and without attributes that stay, such as
            `chlo.erf`.
    """
    # Kept operations become custom calls, which the official pass does not change.
    for operation in find_operations(module.operation, *kept):
        name = ir().StringAttr.get(operation.name, operation.context)
        replace_operation(operation, CUSTOM_CALL, {"call_target_name": name})
    bindings.legalize_chlo(module)
    if kept:
        restore_operations(module, kept)


def restore_operations(module: IrModule, names: Sequence[str]) -> None:
    """Turn custom calls whose targets are names of operations without attributes into these
    operations, in place."""
    for call in find_operations(module.operation, CUSTOM_CALL):
        name = call.attributes["call_target_name"].value
        if name in names:
            replace_operation(call, name, {})
