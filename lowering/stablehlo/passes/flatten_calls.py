"""flatten_calls: put the bodies of plainly called functions where the calls are.

torch_xla wraps every composite in a function of its own:

    %1 = call @main.4(%0)                        %1 = stablehlo.composite "ptxla.gelu" %0 {
    func.func private @main.4(%arg0) {     =>        decomposition = @ptxla.gelu.impl.2}
      %0 = stablehlo.composite "ptxla.gelu"
        %arg0 {decomposition = @ptxla.gelu.impl.2}
      return %0
    }

Decompositions stay functions: composites refer to them, they are not called.
"""

from collections.abc import Container

from ..inlining import inline_call
from ..module import Module
from ..symbols import body, callees_first, functions, is_private, uses


def flatten_calls(module: Module, *, only: Container[str] | None = None) -> Module:
    """Inline every `func.call`, innermost first; with `only`, calls of these functions alone.

    Private functions that are called no more are removed. Calls of a declaration, or of a
    function with several blocks, stay.
    """
    result = module.copy_ir()
    by_name = functions(result)
    found = uses(result.operation)
    kept = found.others | found.composites.keys()
    for name in callees_first(result):
        function = by_name[name]
        calls = found.calls.get(name, [])
        if not calls or (only is not None and name not in only) or body(function) is None:
            continue
        removable = is_private(function) and name not in kept
        for call in calls[:-1]:
            inline_call(call, function, last_use=False)
        inline_call(calls[-1], function, last_use=removable)
    return Module(result)
