"""Replacing the code of a Python function, wherever a program holds the function.

Programs hold functions of JAX in many places: as names of modules, fields of flax modules, values
of dictionaries, or inside functions that `jax.jit` returned. The function object stays the same in
all of them. Only its code changes, and is restored when no entry catches the function any more.

Some functions are local functions of another function, such as the updates of optax's optimizers.
Then the code of the outer function changes, and the code of the local functions that it has made.
"""

import gc
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dis import get_instructions
from types import CellType, CodeType, FunctionType
from typing import Any

from composites.errors import UnusableFunctionError, did_you_mean
from composites.functions import import_module

_LOCALS = "<locals>"
"""The part of a name between an outer function and a local function."""

Handler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""A function of the original function and the arguments of a call."""


class ReplacedFunction:
    """A function whose calls go to a handler until `restore`."""

    def __init__(self, function: FunctionType, handler: Handler) -> None:
        self._function = function
        self._code = function.__code__
        original = FunctionType(
            self._code, function.__globals__, function.__name__, function.__defaults__
        )
        original.__kwdefaults__ = function.__kwdefaults__
        original.__qualname__ = function.__qualname__
        self._signature = vars(function).get("__signature__")

        def handled(*arguments: Any, **keywords: Any) -> Any:
            return handler(original, arguments, keywords)

        # `jax.jit` and flax read the signatures of functions.
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        function.__code__ = _calling(handled, self._code)

    def restore(self) -> None:
        """Restore the function."""
        self._function.__code__ = self._code
        if self._signature is None:
            vars(self._function).pop("__signature__", None)
        else:
            vars(self._function)["__signature__"] = self._signature


def _calling(handled: Callable[..., Any], code: CodeType) -> CodeType:
    """Make code that calls a function, which it holds as a constant."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        handled: Any = "handled"
        return handled(*arguments, **keywords)

    assert "handled" in call.__code__.co_consts
    constants = tuple(handled if c == "handled" else c for c in call.__code__.co_consts)
    return call.__code__.replace(
        co_consts=constants, co_name=code.co_name, co_qualname=code.co_qualname
    )


class ReplacedLocal:
    """The local functions that a `def` inside another function makes. Their calls go to a handler
    until `restore`. A function that another thread makes during the change may keep its former code
    until the next change.

    The handler's original function has the variables of the function that was called. It has no
    defaults, but the handler gets all arguments.
    """

    def __init__(self, maker: FunctionType, code: CodeType, handler: Handler) -> None:
        self._maker = maker
        self._code = code
        self._maker_code = maker.__code__
        self._is_restored = False

        def handled(
            variables: tuple[Any, ...], arguments: tuple[Any, ...], keywords: dict[str, Any]
        ) -> Any:
            cells = tuple(map(CellType, variables))
            original = FunctionType(code, maker.__globals__, code.co_name, closure=cells)
            if self._is_restored:  # another thread made the function in the meantime
                return original(*arguments, **keywords)
            return handler(original, arguments, keywords)

        self._calling = _calling_with_variables(handled, code)
        constants = tuple(
            self._calling if constant is code else constant for constant in maker.__code__.co_consts
        )
        maker.__code__ = maker.__code__.replace(co_consts=constants)
        _exchange(code, self._calling)

    def restore(self) -> None:
        """Restore the functions."""
        self._is_restored = True
        self._maker.__code__ = self._maker_code
        _exchange(self._calling, self._code)


def _exchange(code: CodeType, replacement: CodeType) -> None:
    """Replace a code object in all functions that have it and that `gc.freeze` does not hide."""
    for function in gc.get_referrers(code):
        if isinstance(function, FunctionType) and function.__code__ is code:
            function.__code__ = replacement


_HANDLED = "the function that is called"
"""The placeholder of the called function in compiled source."""


def _calling_with_variables(handled: Callable[..., Any], code: CodeType) -> CodeType:
    """Make code with the parameters and the variables of `code`. It calls a function, which it
    holds as a constant, with the values of the variables and with its arguments."""
    names, varargs, varkw = inspect.getargs(code)
    positional, keyword_only = names[: code.co_argcount], names[code.co_argcount :]
    parameters = [*positional]
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    if varargs is not None or keyword_only:
        parameters.append(f"*{varargs or ''}")
    unpacked = [] if varkw is None else [f"**{varkw}"]
    arguments = [*positional, *([] if varargs is None else [f"*{varargs}"])]
    keywords = [f"{name!r}: {name}" for name in keyword_only] + unpacked
    source = f"""
def maker({_list(code.co_freevars)}):
    def call({_list([*parameters, *keyword_only, *unpacked])}):
        __handled = {_HANDLED!r}
        return __handled(({_list(code.co_freevars)}), ({_list(arguments)}), {{{_list(keywords)}}})
"""
    module = compile(source, code.co_filename, "exec", dont_inherit=True)
    call = _code_within(_code_within(module, "maker"), "call")
    assert call.co_freevars == code.co_freevars
    return call.replace(
        co_consts=tuple(handled if c == _HANDLED else c for c in call.co_consts),
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
    )


def _list(parts: Sequence[str]) -> str:
    return "".join(f"{part}, " for part in parts)


def _code_within(code: CodeType, name: str) -> CodeType:
    """The code of the only inner `def` of a name.

    Raises:
        UnusableFunctionError: there is no such `def`, or there are several.
    """
    within = [c for c in code.co_consts if isinstance(c, CodeType)]
    matches = [c for c in within if c.co_name == name]
    if len(matches) != 1:
        if matches:
            raise UnusableFunctionError(f"{code.co_name} defines several functions {name}")
        hint = did_you_mean(name, [c.co_name for c in within])
        raise UnusableFunctionError(f"{code.co_name} defines no function {name}{hint}")
    return matches[0]


_SPECIAL = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _is_plain(code: CodeType) -> bool:
    """Return whether code is of a plain function, not of a class or a generator, and only reads the
    variables of enclosing functions."""
    if code.co_flags & _SPECIAL or not code.co_flags & inspect.CO_OPTIMIZED:
        return False
    return _changed(code).isdisjoint(code.co_freevars)


def _changed(code: CodeType) -> set[str]:
    """The shared variables that code assigns to, itself or in its inner functions."""
    changed = {i.argval for i in get_instructions(code) if i.opname in _CHANGES}
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return changed.union(*(_changed(code).intersection(code.co_freevars) for code in inner))


_CHANGES = ("STORE_DEREF", "DELETE_DEREF")


@dataclass(frozen=True, slots=True)
class Replaceable:
    """A function without its decorators."""

    function: FunctionType
    is_compiled: bool
    """True if `jax.jit` is among the wrappers."""
    local: CodeType | None = None
    """The code of the local function of `function` that is replaced; None to replace `function`."""

    def replace(self, handler: Handler) -> ReplacedFunction | ReplacedLocal:
        """Make calls go to a handler."""
        if self.local is None:
            return ReplacedFunction(self.function, handler)
        return ReplacedLocal(self.function, self.local, handler)


def find_replaceable(target: str) -> Replaceable:
    """Find the function `package.module:Class.method`, or a local function
    `package.module:function.<locals>.name`.

    Raises:
        UnusableFunctionError: the function does not exist, or its code cannot be replaced.
    """
    name, _, path = target.partition(":")
    path, _, local = path.partition(f".{_LOCALS}.")
    owner: Any = import_module(name)
    for part in path.split("."):
        if not hasattr(owner, part):
            raise UnusableFunctionError(
                f"{owner.__name__} has no {part}{did_you_mean(part, list(vars(owner)))}"
            )
        owner = inspect.getattr_static(owner, part)
    function = inspect.unwrap(owner)
    if not isinstance(function, FunctionType) or function.__code__.co_freevars:
        raise UnusableFunctionError(
            f"{target} cannot be caught: it is not a plain function, or has variables of an"
            " enclosing one"
        )
    if local:
        code = _code_within(function.__code__, local)
        if not _is_plain(code):
            raise UnusableFunctionError(
                f"{target} cannot be caught: it is not a plain function, or assigns to variables of"
                f" {function.__name__}"
            )
        return Replaceable(function, False, code)
    return Replaceable(function, _is_compiled(owner))


def _is_compiled(value: Any) -> bool:
    while hasattr(value, "__wrapped__"):
        if hasattr(value, "lower"):  # a function that jax.jit returned
            return True
        value = value.__wrapped__
    return False
