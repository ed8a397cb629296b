"""unshare_decompositions: give every composite call its own decomposition function.

The opposite of share_decompositions, for consumers that group a composite's operations by the
function that they came from.
"""

from collections import deque

from ..in_place import in_place
from ..ir_types import IrModule
from ..sizes import check_copies
from ..symbols import COMPOSITE, Namer, functions, is_private, rename, retarget, target, walk_uses


@in_place
def unshare_decompositions(module: IrModule) -> None:
    """Clone decompositions until no two composites share a decomposition.

    Raises:
        SizeError: the decompositions use each other so often that there would be too many copies.
        UnsupportedOperationError: functions refer to each other in a cycle.
    """
    check_copies(
        module,
        lambda used: used.name == COMPOSITE,
        remedy="let composites share their decompositions",
    )
    by_name = functions(module)
    fresh = Namer(by_name)
    used: set[str] = set()
    queue = deque(function for function in by_name.values() if not is_private(function))
    while queue:
        for operation in walk_uses(queue.popleft()):
            if operation.name != COMPOSITE:
                continue
            name = target(operation)
            if name in used:
                copy = by_name[name].clone(ip=False)
                name = fresh(name)
                rename(copy, name)
                module.body.append(copy)
                by_name[name] = copy
                retarget([operation], name)
            used.add(name)
            queue.append(by_name[name])
