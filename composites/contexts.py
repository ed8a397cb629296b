"""Context managers that change an attribute, a setting, a context variable or a list."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_ABSENT = object()


@contextmanager
def with_attributes(owner: Any, **values: Any) -> Iterator[None]:
    """A context in which an object, a class or a module has these attributes."""
    before = {name: vars(owner).get(name, _ABSENT) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            if value is not _ABSENT:
                setattr(owner, name, value)
            elif name in vars(owner):
                delattr(owner, name)


@contextmanager
def with_setting(read: Callable[[], T], write: Callable[[T], object], value: T) -> Iterator[None]:
    """A context in which a setting has this value. `read` and `write` access the setting."""
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


@contextmanager
def with_value(variable: ContextVar[T], value: T) -> Iterator[None]:
    """A context in which a context variable has this value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def with_last(items: list[T], item: T) -> Iterator[T]:
    """A context in which a list ends with an item."""
    items.append(item)
    try:
        yield item
    finally:
        items.pop()
