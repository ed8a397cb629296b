"""`fingerprint`: a hash of a composite's decomposition, independent of the names in its module."""

import hashlib
import re

from .ir_types import IrModule, IrOperation
from .module import Module
from .symbols import functions

_REFERENCE = re.compile(r'@("(?:[^"\\]|\\.)*"|[\w$.-]+)')


def fingerprint(module: Module, composite: IrOperation) -> str:
    """`sha256:` and the hash of the decomposition of one composite of a module.

    The hash covers the functions that the decomposition refers to. It does not depend on names of
    functions, locations, or the rest of the module.
    """
    text = decomposition_text(module.ir, composite.attributes["decomposition"].value)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def decomposition_text(module: IrModule, name: str) -> str:
    """The text of a function and of functions that it refers to, numbered in order of first use."""
    by_name = functions(module)
    numbers = {name: 0}

    def renamed(match: re.Match[str]) -> str:
        target = match[1].strip('"')
        if target not in by_name:
            return match[0]
        return f"@{numbers.setdefault(target, len(numbers))}"

    texts: list[str] = []
    while len(texts) < len(numbers):
        function = by_name[list(numbers)[len(texts)]]
        text = function.get_asm(enable_debug_info=False, use_local_scope=True)
        texts.append(_REFERENCE.sub(renamed, str(text)))
    return "\n".join(texts)
