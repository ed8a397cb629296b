"""legalize_mhlo_custom_calls: replace XLA's `mhlo.*` custom calls with CHLO or StableHLO.

    custom_call @mhlo.erf(%0) {mhlo.attributes = {}}       =>  chlo.erf %0
    custom_call @mhlo.topk(%0) {mhlo.attributes = {k = 4}} =>  chlo.top_k(%0, k = 4)

XLA writes HLO operations that StableHLO lacks in this form, and only XLA reads them back. torch_xla
2.9 was seen to write erf and topk. The others come from other versions of XLA.
"""

from collections.abc import Callable
from string import Template

from composites.errors import did_you_mean

from .. import bindings
from ..bindings import (
    IrModule,
    IrOperation,
    attributes,
    dictionary_items,
    find_operations,
)
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..inlining import inline_text
from ..insertion import replace_operation
from ..symbols import CUSTOM_CALL, function_name

_PREFIX = "mhlo."


@in_place
def legalize_mhlo_custom_calls(module: IrModule) -> None:
    """Replace every `mhlo.*` custom call with the CHLO or StableHLO operations it represents.

    Raises:
        UnsupportedOperationError: there is no rule for a custom call; the message names it.
    """
    for call in find_operations(module.operation, CUSTOM_CALL):
        target = bindings.string_value(call.attributes["call_target_name"])
        if not target.startswith(_PREFIX):
            continue
        rule = _RULES.get(target)
        if rule is None:
            known = sorted(_RULES)
            raise UnsupportedOperationError(
                f"custom call @{target} in @{_enclosing_function(call)} has no StableHLO or CHLO "
                f"equivalent here{did_you_mean(target, known)}; known: {', '.join(known)}"
            )
        rule(call)


def _unary(name: str) -> Callable[[IrOperation], None]:
    """A rule for an operation from one tensor to another, without attributes."""

    def rule(call: IrOperation) -> None:
        replace_operation(call, name, {})

    return rule


def _top_k(call: IrOperation) -> None:
    items = dictionary_items(attributes(call).get("mhlo.attributes"))
    if "k" not in items:
        raise UnsupportedOperationError(
            f"custom call @mhlo.topk in @{_enclosing_function(call)} has no attribute k; "
            "expected mhlo.attributes = {k = <number of entries>}"
        )
    if "largest" in items and not items["largest"].value:
        _smallest_k(call)
    else:
        replace_operation(call, "chlo.top_k", {"k": items["k"]})


# chlo.top_k only supports the largest entries. XLA sorts by total order, smallest first.
_SMALLEST_K = Template("""
func.func private @smallest_k(%x: $input) -> ($values, $indices) {
  %i = stablehlo.iota dim = $last : $all_indices
  %sorted:2 = "stablehlo.sort"(%x, %i) <{dimension = $last : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$element>, %b: tensor<$element>, %ia: tensor<$index>, %ib: tensor<$index>):
    %less = stablehlo.compare LT, %a, %b, $order
      : (tensor<$element>, tensor<$element>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : ($input, $all_indices) -> ($input, $all_indices)
  %v = stablehlo.slice %sorted#0 [$ranges] : ($input) -> $values
  %j = stablehlo.slice %sorted#1 [$ranges] : ($all_indices) -> $indices
  return %v, %j : $values, $indices
}
""")


def _smallest_k(call: IrOperation) -> None:
    (operand,), (values, indices) = call.operands, call.results
    index = str(indices.type.element_type)
    shape = list(operand.type.shape)
    element = str(operand.type.element_type)
    text = _SMALLEST_K.substitute(
        input=operand.type,
        values=values.type,
        indices=indices.type,
        all_indices=f"tensor<{'x'.join(map(str, shape))}x{index}>",
        last=len(shape) - 1,
        element=element,
        index=index,
        order=_comparison(element),
        ranges=", ".join(f"0:{size}" for size in values.type.shape),
    )
    inline_text(call, text, "<smallest k>")


def _comparison(element: str) -> str:
    if element.startswith(("f", "bf")):
        return "TOTALORDER"
    return "UNSIGNED" if element.startswith("ui") or element == "i1" else "SIGNED"


def _enclosing_function(operation: IrOperation) -> str:
    while operation.name != "func.func":
        operation = operation.parent.operation
    return function_name(operation)


_UNARY_NAMES = ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan")
_RULES: dict[str, Callable[[IrOperation], None]] = {
    **{f"{_PREFIX}{name}": _unary(f"chlo.{name}") for name in _UNARY_NAMES},
    f"{_PREFIX}topk": _top_k,
}
