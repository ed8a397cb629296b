"""A property that is computed once, without a lock.

`functools.cached_property` of Python 3.11 has one lock for all objects of a class, which it holds
while it computes. This package traces functions in such properties, and JAX lets a thread wait
while another one traces the same function. Two threads could then wait for each other.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class lock_free_property(Generic[Value]):
    """An attribute that a method computes on first use.

    Threads that use it at once may each compute it. All of them get the object of the first one,
    since kinds of calls are compared by identity.
    """

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        if instance is None:
            return self
        # Written where Python looks first, also in a frozen dataclass.
        value: Value = vars(instance).setdefault(self._name, self._function(instance))
        return value
