"""The environment that all tests share, set before anything reads it."""

import gc
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from composites_testing import environment
from composites_testing.file_times import FileTimes

environment.prepare()

# Tracing makes many objects that live until it ends. With Python's thresholds, looking for garbage
# among them takes a twelfth of the time of tests.
gc.set_threshold(50_000, 20, 50)

# The scripts of benchmarks/ are not part of the installed package. The repository comes last on the
# path, so that the packages which they import are those that are installed.
REPOSITORY = str(Path(__file__).parents[1])
if REPOSITORY not in sys.path:
    sys.path.append(REPOSITORY)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--file-times",
        action="store_true",
        help="print the wall and CPU seconds of each test file, and those of collection",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("file_times"):
        config.pluginmanager.register(FileTimes(config))


@pytest.hookimpl(trylast=True)  # after pytest took out what -m leaves out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests about torch_xla where it is missing, as `.ci/run fx` does by name."""
    if find_spec("torch_xla") is not None:
        return
    about_it = [item for item in items if item.get_closest_marker("torch_xla") is not None]
    config.hook.pytest_deselected(items=about_it)
    items[:] = [item for item in items if item not in about_it]


@pytest.fixture(autouse=True, scope="module")
def no_tensors_without_data(request: pytest.FixtureRequest) -> Iterator[None]:
    """Free what a recording that failed left in cycles of tracebacks. Its tensors have no data, and
    the next `torch_xla.sync()` of the process would execute their graphs."""
    yield
    if request.path.parent.name in ("export", "suggestion", "verification"):
        gc.collect()


@pytest.fixture(autouse=True)
def own_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Undo a test's changes of the path, and forget the modules that it wrote and imported: one has
    a json.py that later processes would import."""
    path, modules = list(sys.path), set(sys.modules)
    written = str(tmp_path_factory.getbasetemp())
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if written in str(getattr(sys.modules[name], "__spec__", None)):
            del sys.modules[name]


@pytest.fixture
def module_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`tmp_path`, from which a test imports modules and packages that it writes there."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def nothing_on() -> Iterator[None]:
    """A test that begins and ends with nothing turned on, and with no registry read."""
    import composites
    from lowering import activation

    composites.disable()
    activation.catalog.cache_clear()
    yield
    composites.disable()
    activation.catalog.cache_clear()


@pytest.fixture
def use(
    request: pytest.FixtureRequest,
    module_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    nothing_on: None,
) -> Callable[[str], str]:
    """`use(ENTRIES)`: write a registry file of the namespace `umbra`, and give its path.

    The module `umbra_ops` has the functions: the source `FUNCTIONS` of the test's file.
    """
    from lowering import activation

    (module_folder / "umbra_ops.py").write_text(getattr(request.module, "FUNCTIONS", ""))

    def write(entries: str) -> str:
        path = module_folder / "umbra.yaml"
        path.write_text(f"schema: 1\nnamespace: umbra\ncomposites:\n{entries}")
        monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(path))
        activation.catalog.cache_clear()
        return str(path)

    return write
