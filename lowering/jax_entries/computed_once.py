"""Results of methods that are computed once for each object and arguments, without a lock.

`functools.cached_property` of Python 3.11 has one lock for all objects of a class, which it holds
while it computes. This package traces functions in such methods, and JAX lets a thread wait while
another one traces the same function. Two threads could then wait for each other.
"""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_RESULTS = "_results"


def computed_once(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """Make a method compute on first use. Arguments are positional and hashable.

    Threads that call the method at once may each compute its result. All of them get the first
    result, since kinds of calls are compared by identity.
    """

    @functools.wraps(method)
    def call(self: Owner, /, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        assert not keywords, f"{method.__qualname__} computes once for positional arguments"
        results: dict[Any, Result] = vars(self).setdefault(_RESULTS, {})
        key = (method.__qualname__, *arguments)
        if key not in results:
            results.setdefault(key, method(self, *arguments, **keywords))
        return results[key]

    return call
