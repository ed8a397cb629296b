"""Parse Python source in several threads.

`ast.parse` of CPython 3.11 counts the depth of the tree in a variable that all threads share. If
two threads parse at once, it fails with `SystemError: AST constructor recursion depth mismatch`
(https://github.com/python/cpython/issues/106905; seen in 3.11.7, not in 3.12.1). The package
therefore parses in one thread at a time.
"""

import ast
import threading

ONE_AT_A_TIME = threading.RLock()  # the garbage collector may run code that parses


def parse_module(source: str | bytes, name: str = "<unknown>") -> ast.Module:
    """Parse the source of a module.

    Raises:
        SyntaxError: the source is not Python.
    """
    with ONE_AT_A_TIME:
        return ast.parse(source, name)


def parse_expression(source: str) -> ast.Expression:
    """Parse one expression.

    Raises:
        SyntaxError: the source is not an expression.
    """
    with ONE_AT_A_TIME:
        return ast.parse(source, mode="eval")
