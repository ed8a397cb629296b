"""Functions of a module: calls, and the decompositions of composites."""

from collections.abc import Container, Iterable
from typing import Any, TypeAlias

from ..bindings import find_operations, run_pipeline
from ..composites import composite_name, find_composites, select, signature
from ..data_movement import element_type
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..insertion import inlined, replace_by
from ..ir_types import IrModule, IrOperation
from ..module import Module
from ..symbols import (
    CALL,
    COMPOSITE,
    Namer,
    body,
    callees_first,
    check_copies,
    decompositions,
    functions,
    is_private,
    rename,
    retarget,
    target,
    uses,
)


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
    run_pipeline(module, "builtin.module(symbol-dce)")


_REMEDY = (
    "leave the calls (--no-clean), and keep the composites whose decompositions have composites"
    " (--keep)"
)


@in_place
def flatten_calls(module: IrModule, *, only: Container[str] | None = None) -> None:
    """Inline every `func.call`, innermost first; with `only`, calls of those functions alone.

    torch_xla wraps every composite in a function of its own:

        %1 = call @main.4(%0)                        %1 = stablehlo.composite "ptxla.gelu" %0 {
        func.func private @main.4(%arg0) {     =>        decomposition = @ptxla.gelu.impl.2}
          %0 = stablehlo.composite "ptxla.gelu"
            %arg0 {decomposition = @ptxla.gelu.impl.2}
          return %0
        }

    Decompositions stay functions, because composites refer to them and do not call them.

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


def decompose(
    module: Module,
    only: str | Iterable[str] | None = None,
    keep: str | Iterable[str] | None = None,
) -> Module:
    """Replace composites, by name or glob, with the operations of their decompositions.

        %1 = stablehlo.composite "ptxla.gelu" %0 {..}   =>   %1 = stablehlo.multiply %0, %cst
                                                             ..

    Args:
        module: the module to start from.
        only: names or globs of the composites to inline; by default all.
        keep: names or globs of the composites to keep, even if `only` matches them.

    Raises:
        UnknownCompositeError: a name or glob matches no composite of the module.
        UnsupportedOperationError: a decomposition has no body, or all functions are private.
        SizeError: the composites are nested so often that too many operations would be made.
    """
    composites = find_composites(module.ir)
    existing = {composite_name(composite) for composite in composites}
    chosen = existing if only is None else select(existing, only)
    chosen = chosen - (set() if keep is None else select(existing, keep))
    if not chosen:
        return module
    inlined = {target(composite) for composite in composites if composite_name(composite) in chosen}
    by_name = functions(module.ir)
    for composite in composites:
        name = target(composite)
        if name in inlined and name in by_name and not by_name[name].regions[0].blocks:
            raise UnsupportedOperationError(
                f"@{name}, the decomposition of {composite_name(composite)}, is a declaration;"
                f" give it a body, or keep the composite (--keep {composite_name(composite)})"
            )
    result = module.copy_ir()
    kept = sorted(existing - chosen)
    options = f"{{except={','.join(kept)}}}" if kept else ""
    run_pipeline(
        result, f"builtin.module(func.func(stablehlo-legalize-composite-to-call{options}))"
    )
    return drop_unused_functions(flatten_calls(Module(result), only=inlined))


def inline_f64_composites(module: Module) -> Module:
    """Inline all composites with the name of one that has operands or results in f64.

    IREE 3.13 inlines composites too. It narrows f64 to f32, and then refuses a program in which two
    composites read results in f64 and i64 of another one, as the scale and the zero point that PT2E
    chooses.
    """
    names = {
        composite_name(composite)
        for composite in find_composites(module.ir)
        if "f64" in map(element_type, (*composite.operands, *composite.results))
    }
    return decompose(module, only=sorted(names)) if names else module


# Functions with equal keys are merged: the signatures of their users, and their text without the
# name.
_Key: TypeAlias = tuple[frozenset[Any], str]


@in_place
def share_decompositions(module: IrModule) -> None:
    """Merge decompositions with the same body that belong to equal composites.

        composite "ptxla.gelu" %0 {@impl.2}          composite "ptxla.gelu" %0 {@impl.2}
        composite "ptxla.gelu" %1 {@impl.7}    =>    composite "ptxla.gelu" %1 {@impl.2}
        func private @impl.2 {..}                    func private @impl.2 {..}
        func private @impl.7 {..the same..}

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


@in_place
def unshare_decompositions(module: IrModule) -> None:
    """Clone decompositions until no two composites share a decomposition.

    The opposite of `share_decompositions`, for consumers that group a composite's operations by the
    function that they came from.

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
    queue = [function for function in by_name.values() if not is_private(function)]
    for function in queue:  # grows while it is read
        for operation in find_operations(function, COMPOSITE):
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


@in_place
def rename_decompositions(module: IrModule) -> None:
    """Name each decomposition after its composite, in order of first use.

        @ptxla.gelu.impl.117, @ptxla.gelu.impl.134  =>  @ptxla.gelu.impl, @ptxla.gelu.impl_0

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
