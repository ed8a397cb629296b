"""flatten_calls: replace plain calls by the bodies of the functions that they call.

torch_xla wraps every composite in a function of its own:

    %1 = call @main.4(%0)                        %1 = stablehlo.composite "ptxla.gelu" %0 {
    func.func private @main.4(%arg0) {     =>        decomposition = @ptxla.gelu.impl.2}
      %0 = stablehlo.composite "ptxla.gelu"
        %arg0 {decomposition = @ptxla.gelu.impl.2}
      return %0
    }

Decompositions stay functions, because composites refer to them and do not call them.
"""

from collections.abc import Container

from ..in_place import in_place
from ..insertion import inlined, replace_by
from ..ir_types import IrModule
from ..sizes import check_copies
from ..symbols import CALL, body, callees_first, functions, is_private, target, uses

_REMEDY = (
    "leave the calls (--no-clean), and keep the composites whose decompositions have composites"
    " (--keep)"
)


@in_place
def flatten_calls(module: IrModule, *, only: Container[str] | None = None) -> None:
    """Inline every `func.call`, innermost first; with `only`, calls of those functions alone.

    Private functions that are no longer called are removed. Calls of a declaration, or of a
    function with several blocks, stay.

    Raises:
        SizeError: the functions call each other so often that too many operations would be made.
        UnsupportedOperationError: functions refer to each other in a cycle.
    """
    by_name = functions(module)
    used = uses(module.operation)
    if not used.calls:
        return
    referenced = used.others | used.composites.keys()
    chosen = {
        name
        for name in used.calls.keys() & by_name.keys()
        if (only is None or name in only) and body(by_name[name]) is not None
    }
    removed = {name for name in chosen if is_private(by_name[name]) and name not in referenced}
    if any(len(used.calls[name]) > 1 for name in chosen):
        check_copies(
            module,
            lambda used: used.name == CALL and target(used) in chosen,
            by_name.keys() - removed,
            remedy=_REMEDY,
        )
    for name in callees_first(module):
        if name in chosen:
            *calls, last = used.calls[name]
            if name not in removed:
                calls.append(last)
            for call in calls:
                replace_by(call, *inlined(call, by_name[name].clone(ip=False), call.operands))
            if name in removed:  # move the body instead of a copy
                replace_by(last, *inlined(last, by_name[name], last.operands))
                by_name[name].erase()
