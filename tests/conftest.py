"""What all tests share: their environment, which is set before anything reads it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from composites_testing import environment

environment.prepare()

# The scripts of benchmarks/ are no part of the installed package. The repository comes last on the
# path, so that the packages which they import are those that are installed.
REPOSITORY = str(Path(__file__).parents[1])
if REPOSITORY not in sys.path:
    sys.path.append(REPOSITORY)


@pytest.fixture(autouse=True)
def own_path() -> Iterator[None]:
    """What a test's files put on the path stays with that test: one has a json.py, which processes
    that later tests start would import."""
    before = list(sys.path)
    yield
    sys.path[:] = before
