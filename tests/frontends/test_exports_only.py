"""Composites that are turned on where nothing runs with them: a warning, once, and no error."""

import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from composites_testing.processes import run

import composites
from lowering import activation
from lowering.frontends import chosen, fx, torch_xla

SAYS = "on for composites.export only, .* programs that run with composites need it: pip install"


def in_a_block() -> None:
    with composites.enabled("gelu"):
        pass


def for_the_process() -> None:
    composites.enable("gelu")
    composites.disable("gelu")


@pytest.fixture(autouse=True)
def not_warned_yet() -> Iterator[None]:
    activation._WARNED_OF_EXPORTS_ONLY.clear()
    yield
    activation._WARNED_OF_EXPORTS_ONLY.clear()


@pytest.mark.parametrize("turn_on", [in_a_block, for_the_process])
def test_where_nothing_runs(turn_on: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """One warning, whichever of both is called next; none for a mistake, or where programs run."""
    monkeypatch.setattr(activation, "package", lambda: torch_xla)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        turn_on()
        monkeypatch.setattr(activation, "package", lambda: fx)
        with pytest.raises(composites.AllowlistError):
            composites.enable("nonsense")
    with pytest.warns(composites.CompositesWarning, match=SAYS) as caught:
        turn_on()
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_a_block()
        for_the_process()


def test_the_warning_comes_after_one_that_an_export_did_not_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(activation, "package", lambda: fx)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with activation._only(lambda: (), exporting=True):
            in_a_block()
    with pytest.warns(composites.CompositesWarning, match=SAYS):
        in_a_block()


@pytest.mark.filterwarnings("ignore::composites.errors.CompositesWarning")
def test_what_is_on_is_in_an_export() -> None:
    with composites.enabled("gelu"):
        program = composites.export(
            torch.nn.Sequential(torch.nn.GELU(), torch.nn.Softmax(-1)), (torch.ones(2, 2),)
        )
    assert dict(program.composites) == {"ptxla.gelu": 1}


@pytest.mark.process
def test_scripts_that_run_nothing(tmp_path: Path) -> None:
    """An archive is no Python source, and is run all the same."""
    sources = {"torch": "import jax\nfrom torch.nn import functional", "jax": "import jax.numpy"}
    scripts = {tmp_path / f"of_{name}.py": name == "torch" for name in sources}
    for script, source in zip(scripts, sources.values(), strict=True):
        script.write_text(source)
    archive = tmp_path / "program.pyz"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("__main__.py", "import jax\n")
    for script, of_pytorch in {**scripts, archive: True}.items():
        done = run(sys.executable, "-m", "composites", "run", str(script))
        assert done.code == 1
        assert "ran no graph on an XLA device, and JAX compiled none" in done.stderr
        assert "Traceback" not in done.stderr
        says = of_pytorch and not chosen.package().RUNS_PROGRAMS
        assert ("without torch_xla, PyTorch programs have composites" in done.stderr) is says
