"""CHLO in place of XLA's custom calls, and StableHLO in place of CHLO."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from composites.errors import did_you_mean
from composites.lazy_modules import lax

from .. import bindings
from ..bindings import attributes, dictionary_items, find_operations, ir
from ..dtypes import numpy_dtype
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..insertion import replace_operation
from ..ir_types import IrModule, IrOperation
from ..symbols import CUSTOM_CALL, enclosing_function
from .expansion import expand


@in_place
def legalize_chlo(module: IrModule, *, kept: Sequence[str] = ()) -> None:
    """Replace CHLO with StableHLO by the official pass `chlo-legalize-to-stablehlo`.

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


_PREFIX = "mhlo."


@in_place
def legalize_mhlo_custom_calls(module: IrModule) -> None:
    """Replace every `mhlo.*` custom call with the CHLO or StableHLO operations it represents.

        custom_call @mhlo.erf(%0) {mhlo.attributes = {}}       =>  chlo.erf %0
        custom_call @mhlo.topk(%0) {mhlo.attributes = {k = 4}} =>  chlo.top_k(%0, k = 4)

    XLA writes HLO operations that StableHLO lacks in this form, and only XLA reads them back.
    torch_xla 2.9 writes erf and topk. Other custom calls come from other versions of XLA.

    Raises:
        UnsupportedOperationError: no rule exists for a custom call; the message names the call.
    """
    for call in find_operations(module.operation, CUSTOM_CALL):
        target = bindings.string_value(call.attributes["call_target_name"])
        if not target.startswith(_PREFIX):
            continue
        rule = _RULES.get(target)
        if rule is None:
            targets = sorted(_RULES)
            raise UnsupportedOperationError(
                f"custom call @{target} in @{enclosing_function(call)} has no StableHLO or CHLO "
                f"equivalent here{did_you_mean(target, targets)}; known: {', '.join(targets)}"
            )
        rule(call)


def _top_k(call: IrOperation) -> None:
    items = dictionary_items(attributes(call).get("mhlo.attributes"))
    if "k" not in items:
        raise UnsupportedOperationError(
            f"custom call @mhlo.topk in @{enclosing_function(call)} has no attribute k; "
            "expected mhlo.attributes = {k = <number of entries>}"
        )
    if "largest" in items and not items["largest"].value:
        _smallest_k(call)
    else:
        replace_operation(call, "chlo.top_k", {"k": items["k"]})


def _smallest_k(call: IrOperation) -> None:
    """Replace a call by a sort: `chlo.top_k` returns only the largest entries."""
    index = numpy_dtype(str(call.results[1].type.element_type))
    count = call.results[0].type.shape[-1]

    def smallest(x: Any) -> list[Any]:
        indices = lax.broadcasted_iota(index, x.shape, x.ndim - 1)
        ordered = lax.sort((x, indices), num_keys=1)
        return [lax.slice_in_dim(array, 0, count, axis=x.ndim - 1) for array in ordered]

    expand(call, smallest)


_UNARY_NAMES = ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan")
_RULES: dict[str, Callable[[IrOperation], None]] = {
    **{
        f"{_PREFIX}{n}": partial(replace_operation, name=f"chlo.{n}", attributes={})
        for n in _UNARY_NAMES
    },
    f"{_PREFIX}topk": _top_k,
}
