"""share_decompositions: keep one function for each composite, shape, dtype and attributes.

composite "ptxla.gelu" %0 {@impl.2}          composite "ptxla.gelu" %0 {@impl.2}
composite "ptxla.gelu" %1 {@impl.7}    =>    composite "ptxla.gelu" %1 {@impl.2}
func private @impl.2 {..}                    func private @impl.2 {..}
func private @impl.7 {..the same..}
"""

from typing import Any, TypeAlias

from ..composites import signature
from ..in_place import in_place
from ..ir_types import IrModule, IrOperation
from ..symbols import callees_first, decompositions, functions, rename, retarget, uses

# Functions with equal keys are merged: the signatures of their users, and their text without the
# name.
_Key: TypeAlias = tuple[frozenset[Any], str]


@in_place
def share_decompositions(module: IrModule) -> None:
    """Merge decompositions with the same body that belong to equal composites.

    Composites are equal if their names, versions, attributes and types are equal. Different
    composites that compute the same keep separate functions. Decompositions inside decompositions
    are merged first, so that functions that contain them can be equal as well.
    """
    by_name = functions(module)
    used = uses(module.operation)
    candidates = set(decompositions(module, used))
    firsts: dict[_Key, str] = {}
    for name in callees_first(module):
        if name not in candidates:
            continue
        users = used.composites[name]
        key = (frozenset(map(signature, users)), _text_without_name(name, by_name[name]))
        # The first function stays. Its users may be gone by the time a later function is compared,
        # because they were inside a duplicate. The users of the later function still exist.
        first = firsts.setdefault(key, name)
        if first != name:
            retarget(users, first)
            by_name[name].erase()


def _text_without_name(name: str, function: IrOperation) -> str:
    """The function as text, with a placeholder for its name.

    With local scope, printing one function does not walk the whole module.
    """
    rename(function, "_")
    text = function.get_asm(use_local_scope=True)
    rename(function, name)
    return str(text)
