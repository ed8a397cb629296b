"""rename_decompositions: function names that say what they are.

@ptxla.gelu.impl.117, @ptxla.gelu.impl.134  =>  @ptxla.gelu.impl, @ptxla.gelu.impl_0
"""

from ..composites import composite_name
from ..module import Module
from ..symbols import Namer, decompositions, functions, rename, uses


def rename_decompositions(module: Module) -> Module:
    """Name each decomposition after the composite it serves, in order of first use.

    The functions are put in that order too, behind all others, so that the text depends on what
    the program does and not on how it was built.
    """
    result = module.copy_ir()
    by_name = functions(result)
    found = uses(result.operation)
    order = decompositions(result, found)
    fresh = Namer(by_name.keys() - set(order))
    names = {name: fresh(f"{composite_name(found.composites[name][0])}.impl") for name in order}
    for old, new in names.items():
        rename(by_name[old], new, found.composites[old])
        result.body.append(by_name[old].detach_from_parent())
    return Module(result)
