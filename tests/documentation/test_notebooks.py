"""The notebooks of `examples` run from their first cell to the last one."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"
PRINTED = {
    "add_your_accelerator": ("tinychip.normalize_backward", "wrong differs", "no changes"),
    "language_model_to_litert": ("odml.rms_norm", "largest difference"),
    "train_on_jax_and_iree": ("ptxla.adamw", "IREE     last loss"),
}


@pytest.mark.process
@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(notebook: Path) -> None:
    """A cell that fails raises. Cells of commands pass in any case, so their output is compared."""
    content = nbformat.read(notebook, as_version=4)
    metadata = {"path": str(notebook.parent)}
    NotebookClient(content, timeout=600, resources={"metadata": metadata}).execute()
    outputs = [each for cell in content.cells for each in cell.get("outputs", ())]
    printed = "".join(
        each.get("text") or each.get("data", {}).get("text/plain", "") for each in outputs
    )
    assert "Traceback" not in printed
    assert [text for text in PRINTED[notebook.stem] if text not in printed] == []
