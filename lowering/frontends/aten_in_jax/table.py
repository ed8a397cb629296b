"""The table of rules: from operators of PyTorch to functions of JAX arrays.

A rule takes the dtype of the result, or a tuple of dtypes, and then the operator's arguments. Its
result is cast to that dtype.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from composites.errors import UnsupportedCallError
from composites.registry.operators import overload

Rule = Callable[..., Any]

RULES: dict[Any, Rule] = {}
"""Rules by overload. The keys of operators that other packages define are names."""

LINEAR_ALGEBRA: set[Any] = set()
"""Operators whose rules JAX lowers to calls of a library of the device, such as LAPACK."""


class NoRuleError(UnsupportedCallError):
    """A decomposition has an operator without a rule."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators, such as `aten::add.Tensor`."""
    return _registering(*map(overload, names))


def rule_of_package(name: str) -> Callable[[Rule], Rule]:
    """Register a rule for an operator that a package defines if it is imported."""
    return _registering(name)


def _registering(*keys: Any) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(keys, function))
        return function

    return register


def rule_of_ranks(name: str) -> Callable[[Rule], Rule]:
    """Register a rule for the operators of two and of three dimensions, such as
    `aten::avg_pool{}d`. The number of dimensions is the rule's first argument."""

    def register(function: Rule) -> Rule:
        for rank in (2, 3):
            RULES[overload(name.format(rank))] = partial(function, rank)
        return function

    return register


def rule_without_dtype(function: Callable[..., Any], *names: str) -> None:
    """Register a function that takes an operator's arguments and no dtype of the result."""
    rule(*names)(lambda dtype, /, *arguments, **keywords: function(*arguments, **keywords))


def linear_algebra_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators of `LINEAR_ALGEBRA`."""
    LINEAR_ALGEBRA.update(map(overload, names))
    return rule(*names)


def has_rule(operator: Any) -> bool:
    """Return whether an operator has a rule. `getitem` of results needs no rule."""
    if not hasattr(operator, "overloadpacket"):
        return True
    return operator in RULES or operator.name() in RULES


def find_rule(operator: Any) -> Rule:
    """The rule of an operator.

    Raises:
        NoRuleError: the operator has no rule.
    """
    name = getattr(operator, "name", lambda: str(operator))()
    registered = RULES.get(operator) or RULES.get(name)
    if registered is None:
        raise NoRuleError(f"{name} has no rule in JAX")
    return registered
