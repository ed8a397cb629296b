"""Scripts that run no graph with composites, under `composites run`."""

import sys
import zipfile
from pathlib import Path

import pytest
from composites_testing.processes import run

from lowering.frontends import chosen


@pytest.mark.process
def test_scripts_that_run_nothing(tmp_path: Path) -> None:
    """An archive is not Python source, and is run all the same."""
    script = tmp_path / "of_torch.py"
    script.write_text("import jax\nfrom torch.nn import functional")
    archive = tmp_path / "program.pyz"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("__main__.py", "import jax\n")
    for program in (script, archive):
        done = run(sys.executable, "-m", "composites", "run", str(program))
        assert done.code == 1
        assert "ran no graph on an XLA device, and JAX compiled none" in done.stderr
        assert "Traceback" not in done.stderr
        says = "without torch_xla, PyTorch programs have composites" in done.stderr
        assert says is (chosen.chosen() == "fx")
