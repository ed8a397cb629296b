"""What all tests share: their environment, which is set before anything reads it."""

import sys
from collections.abc import Iterator

import pytest
from composites_testing import environment

environment.prepare()


@pytest.fixture(autouse=True)
def own_path() -> Iterator[None]:
    """What a test's files put on the path stays with that test: one has a json.py, which processes
    that later tests start would import."""
    before = list(sys.path)
    yield
    sys.path[:] = before
