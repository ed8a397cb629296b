"""unshare_decompositions: give every composite call a decomposition function of its own.

The opposite of share_decompositions, for consumers that group a composite's operations by the
function they came from.
"""

from collections import deque

from ..module import Module
from ..symbols import COMPOSITE, Namer, functions, is_private, rename, retarget, walk_uses


def unshare_decompositions(module: Module) -> Module:
    """Clone decompositions until no two composites refer to the same one."""
    result = module.copy_ir()
    by_name = functions(result)
    fresh = Namer(by_name)
    used: set[str] = set()
    queue = deque(function for function in by_name.values() if not is_private(function))
    while queue:
        for operation in walk_uses(queue.popleft()):
            if operation.name != COMPOSITE:
                continue
            name = operation.attributes["decomposition"].value
            if name in used:
                copy = by_name[name].clone(ip=False)
                name = fresh(name)
                rename(copy, name)
                result.body.append(copy)
                by_name[name] = copy
                retarget([operation], name)
            used.add(name)
            queue.append(by_name[name])
    return Module(result)
