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

from ..bindings import IrModule
from ..in_place import in_place
from ..inlining import inline_call
from ..symbols import body, callees_first, functions, is_private, uses


@in_place
def flatten_calls(module: IrModule, *, only: Container[str] | None = None) -> None:
    """Inline every `func.call`, innermost first. With `only`, inline only calls of these functions.

    Private functions that are no longer called are removed. Calls of a declaration, or of a
    function with several blocks, stay.
    """
    by_name = functions(module)
    found = uses(module.operation)
    if not found.calls:
        return
    kept = found.others | found.composites.keys()
    for name in callees_first(module):
        function = by_name[name]
        calls = found.calls.get(name, [])
        if not calls or (only is not None and name not in only) or body(function) is None:
            continue
        removable = is_private(function) and name not in kept
        for call in calls[:-1]:
            inline_call(call, function, last_use=False)
        inline_call(calls[-1], function, last_use=removable)
