"""The notebooks of `examples` run from their first cell to the last one."""

import json
import sys
from pathlib import Path

import pytest
from composites_testing.processes import run

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"
PRINTED = {
    "add_your_accelerator": ("tinychip.normalize_backward", "wrong differs", "no changes"),
    "language_model_to_litert": ("largest difference",),
    "train_on_jax_and_iree": ("ptxla.gelu", "IREE     last loss"),
}


@pytest.mark.process
@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    lines = ["import os, subprocess", f"os.chdir({str(notebook.parent)!r})"]
    lines += [python(line) for source in sources for line in source.splitlines()]
    done = run(sys.executable, "-u", "-c", "\n".join(lines), PJRT_DEVICE="CPU").succeeded()
    assert "Traceback" not in done.stderr
    assert [text for text in PRINTED[notebook.stem] if text not in done.stdout + done.stderr] == []


def python(line: str) -> str:
    """A line of a cell without what Jupyter adds to Python: commands, and variables for them."""
    if line.startswith("!"):
        return f"subprocess.run({line[1:]!r}, shell=True)"
    if line.startswith("%env "):
        name, _, value = line.removeprefix("%env ").partition("=")
        return f"os.environ[{name!r}] = {value!r}"
    return line
