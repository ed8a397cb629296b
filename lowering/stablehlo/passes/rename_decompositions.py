"""rename_decompositions: name decompositions after their composites.

@ptxla.gelu.impl.117, @ptxla.gelu.impl.134  =>  @ptxla.gelu.impl, @ptxla.gelu.impl_0
"""

from ..composites import composite_name
from ..in_place import in_place
from ..ir_types import IrModule
from ..symbols import Namer, decompositions, functions, rename, uses


@in_place
def rename_decompositions(module: IrModule) -> None:
    """Name each decomposition after its composite, in order of first use.

    The functions are also moved behind all other functions, in the same order. The text then
    depends only on the program's computation, and not on the way it was built.
    """
    by_name = functions(module)
    used = uses(module.operation)
    order = decompositions(module, used)
    fresh = Namer(by_name.keys() - set(order))
    names = {name: fresh(f"{composite_name(used.composites[name][0])}.impl") for name in order}
    for old, new in names.items():
        rename(by_name[old], new, used.composites[old])
        module.body.append(by_name[old].detach_from_parent())
