"""Helpers that several folders of tests share.

pytest and mypy find it through `tests/support`, which pyproject.toml puts on their paths; test
files cannot import each other, as they are not packages.
"""
