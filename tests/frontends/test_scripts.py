"""Scripts that run no graph with composites, under `composites run`."""

import sys
import zipfile
from pathlib import Path

import pytest
from composites_testing.processes import run

from lowering.frontends import chosen


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
        says = of_pytorch and chosen.chosen() == "fx"
        assert ("without torch_xla, PyTorch programs have composites" in done.stderr) is says
