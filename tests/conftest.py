"""What all tests share: their environment, which is set before anything reads it."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from composites_testing import environment

environment.prepare()

# The scripts of benchmarks/ are no part of the installed package. The repository comes last on the
# path, so that the packages which they import are those that are installed.
REPOSITORY = str(Path(__file__).parents[1])
if REPOSITORY not in sys.path:
    sys.path.append(REPOSITORY)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--one-of-each",
        action="store_true",
        help="run each test with the first of its parameters only, unless it is marked `names`:"
        " what another release of a dependency changes is a name or a format",
    )


@pytest.hookimpl(trylast=True)  # after pytest took out what -m leaves out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without torch_xla, the tests that are about it are left out, as `.ci/run fx` does by name."""
    kept = items
    if find_spec("torch_xla") is None:
        kept = [item for item in kept if item.get_closest_marker("torch_xla") is None]
    if config.getoption("one_of_each"):
        # A dict keeps of equal keys what is set last.
        kept = list({_test(item): item for item in reversed(kept)}.values())[::-1]
    left_out = set(items).difference(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept


def _test(item: pytest.Item) -> str:
    """Without its parameters, unless each of them is a name in another package."""
    if item.get_closest_marker("names") is not None:
        return item.nodeid
    return item.nodeid.partition("[")[0]


@pytest.fixture(autouse=True)
def own_path() -> Iterator[None]:
    """What a test's files put on the path stays with that test: one has a json.py, which processes
    that later tests start would import."""
    before = list(sys.path)
    yield
    sys.path[:] = before
