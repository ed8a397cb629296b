"""Find functions by name, and read their signatures. Only this module turns text from users into
code.

| form | how the function is found |
|---|---|
| `package.module:function` | by importing the module |
| `package.module:Class.method` | by importing the module and looking up the class |
| `FILE.py:function` | on the command line only: the file is run as a module |
"""

import importlib
import importlib.util
import inspect
import keyword
import os
import pkgutil
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from composites.errors import UnusableFunctionError, did_you_mean


def find_function(target: str) -> Callable[..., Any]:
    """Import `package.module:function`.

    Raises:
        UnusableFunctionError: the module or function does not exist, or the import failed.
    """
    module_name, _, function_name = target.partition(":")
    return _function(import_module(module_name), f"module {module_name}", function_name)


def has_function(target: str) -> bool:
    """Return True if the module of `package.module:function` has a function of that name.

    Raises:
        UnusableFunctionError: the module does not exist, or its import failed.
    """
    module_name, _, function_name = target.partition(":")
    return inspect.isfunction(getattr(import_module(module_name), function_name, None))


def named_signature(function: Callable[..., Any], target: str) -> inspect.Signature:
    """Return the signature of a function whose arguments can be those of a composite.

    Raises:
        UnusableFunctionError: the function takes `*args` or `**kwargs`, or its signature cannot be
            read.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UnusableFunctionError(
            f"the signature of {target} cannot be read; wrap it in a Python function"
        ) from error
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UnusableFunctionError(
                f"{target}{signature} takes *{parameter.name}; a composite's arguments need names"
            )
        if parameter.name[0] == "_" or keyword.iskeyword(parameter.name):
            raise UnusableFunctionError(
                f"{target}{signature}: {parameter.name!r} cannot be the name of an argument"
            )
    return signature


def load_function(target: str) -> Callable[..., Any]:
    """Load the function that the command line names, `FILE.py:FUNCTION` or
    `package.module:FUNCTION`.

    A file can import modules from its own folder, as with `python FILE.py`. A package can also be
    in the working directory, as with `python -m`.

    Raises:
        UnusableFunctionError: the file, module or function does not exist, or the import failed.
    """
    owner, colon, name = target.rpartition(":")
    if not (colon and owner and name):
        raise UnusableFunctionError(
            f"{target!r} does not name a function; write FILE.py:FUNCTION or"
            " package.module:FUNCTION"
        )
    if owner.endswith(".py"):
        return _function(_run_file(Path(owner)), owner, name)
    _make_importable(os.getcwd())
    return find_function(target)


def import_module(module_name: str) -> ModuleType:
    """Import a module.

    Raises:
        UnusableFunctionError: the module does not exist, or its import failed.
    """
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnusableFunctionError(_missing_module(module_name, error)) from error
    except (Exception, SystemExit) as error:
        raise UnusableFunctionError(
            f"importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error


def _function(module: ModuleType, owner: str, name: str) -> Callable[..., Any]:
    """Look `name` up in a module. `owner` is the module in error messages."""
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part, None)
    if function is None:
        names = [key for key, value in vars(module).items() if callable(value)]
        raise UnusableFunctionError(f"{owner} has no function {name}{did_you_mean(name, names)}")
    if not callable(function):
        raise UnusableFunctionError(
            f"{name} of {owner} is not a function; it is of type {type(function).__name__}"
        )
    return function  # type: ignore[no-any-return]


def _run_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise UnusableFunctionError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    _make_importable(str(path.parent.resolve()))
    try:
        _register(module)
        spec.loader.exec_module(module)
    except SystemExit as error:  # other errors are shown with their traceback
        raise UnusableFunctionError(f"running {path} failed: SystemExit: {error}") from error
    return module


_RUN: dict[str, ModuleType] = {}
"""The modules of files that were run, by name."""


def _register(module: ModuleType) -> None:
    """Add the module of a file to `sys.modules`, as Python's own recipe does: dataclasses look
    their module up, and entries with `function` name it. Another module of that name is kept."""
    name = module.__name__
    if name not in sys.modules or sys.modules[name] is _RUN.get(name):
        sys.modules[name] = _RUN[name] = module


def _make_importable(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _missing_module(module_name: str, error: ModuleNotFoundError) -> str:
    missing = error.name or module_name
    if missing != module_name and not module_name.startswith(f"{missing}."):
        return f"importing {module_name} failed: package {missing} is not installed"
    parent, _, last = missing.rpartition(".")
    path = getattr(importlib.import_module(parent), "__path__", None) if parent else None
    if parent and path is None:
        return (
            f"there is no module {missing}: {parent} is a module, not a package; a function in it"
            f" is {parent}:FUNCTION, and a method {parent}:CLASS.METHOD"
        )
    here = None if parent else PathFinder.find_spec(missing, [os.getcwd()])
    if here is not None and here.has_location:  # the script `composites` does not import from here
        hint = "; set PYTHONPATH=. to import it from this folder"
    else:
        hint = did_you_mean(last, [module.name for module in pkgutil.iter_modules(path)])
    return f"there is no module {missing}{hint}"
