"""A program that does what a user's program does first, and tells what came of it.

It is run by its path, in a process of its own, with two arguments: a file to which it writes one
line of JSON for each step, and the folder of the user's script. It imports nothing of this project
before torch does: the folder may hold other modules of the same names.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any


def main(file: str, folder: str) -> None:
    """Import torch, torch_xla and jax, and tell what came of it. A package that is not there is no
    end: torch_xla is needed by programs that run with composites, and torch by none that reads
    files."""
    with Path(file).open("w", encoding="utf-8") as stream:

        def tell(step: str, **facts: Any) -> None:
            stream.write(json.dumps({"step": step, **facts}) + "\n")
            stream.flush()  # the next step may end the process

        if not sys.flags.safe_path:  # as Python does, but for PYTHONSAFEPATH
            sys.path[0] = folder
        tell("start", path=sys.path)
        for name in ("torch", "torch_xla"):
            errors = _errors(partial(importlib.import_module, name))
            if errors is None:
                tell(name, file=sys.modules[name].__file__)
                continue
            tell(name, errors=errors)
            if errors[0] != f"ModuleNotFoundError: No module named {name!r}":
                return
            break
        if "torch" in sys.modules:
            plugin = sys.modules.get("lowering.autoload")
            tell("plugin", file=getattr(plugin, "__file__", None))
            if plugin is not None:
                _look_at_composites(tell)
        jax = _errors(partial(importlib.import_module, "jax"))
        tell("jax", errors=jax or [])  # for files, and for decompositions in JAX


def _look_at_composites(tell: Callable[..., None]) -> None:
    """Tell whether the frontend can be had, and what is on."""
    if "torch_xla" in sys.modules:
        tell("device", type=os.environ.get("PJRT_DEVICE"))
        capabilities = importlib.import_module("lowering.frontends.torch_xla.capabilities")
        tell("capabilities", missing=capabilities.missing())
    else:  # what an export does first
        errors = _errors(lambda: importlib.import_module("lowering.activation").backend())
        tell("recorder", errors=errors or [])
        if errors is not None:
            return
    tell("active", names=list(importlib.import_module("composites").active()))


def _errors(do: Callable[[], object]) -> list[str] | None:
    """Do something. Returns the error, and those that led to it."""
    try:
        do()
    except BaseException as error:
        found: list[str] = []
        cause: BaseException | None = error
        while cause is not None:
            found.append(f"{type(cause).__name__}: {cause}")
            cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        return found
    return None


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
