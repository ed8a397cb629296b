"""Programs that one release of jaxlib writes, read and run by others; `.ci/run artifacts` calls it.

python exchange_artifacts.py write FOLDER   export the example models (needs torch)
python exchange_artifacts.py again FOLDER   write their artifacts once more, with this jaxlib
python exchange_artifacts.py read FOLDER    read what all have written, run it, compare the numbers
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jaxlib
import numpy as np

from composites import Program
from lowering.stablehlo import Module, bindings, composite_count, run

SUPPORT = Path(__file__).parents[1] / "support"
SUBJECTS = {"bert": "step", "conv_net": "gradients"}
"""Example models, and what is exported of each."""

VALUES, EXPECTED = "values.npz", "expected.npz"


def write(folder: Path) -> None:
    """Save the programs, and beside each folder its inputs and what it gives here."""
    sys.path.insert(0, str(SUPPORT))
    from composites_testing.example_models import export_example, load_example

    for name, kind in SUBJECTS.items():
        program = export_example(name, kind)
        values = list(load_example(name).values(program).values())
        program.save(folder / name / "program")
        save_arrays(folder / name / VALUES, values)
        save_arrays(folder / name / EXPECTED, list(program.run(*values).values()))


def again(folder: Path) -> None:
    """The artifacts that this jaxlib writes for the same programs."""
    for name in SUBJECTS:
        module = Module.read(folder / name / "program" / "program.mlirbc")
        module.write(folder / name / f"jaxlib-{jaxlib.__version__}.mlirbc")


def read(folder: Path) -> None:
    """Read the artifacts of all writers."""
    for name in SUBJECTS:
        program = Program.load(folder / name / "program")
        values = load_arrays(folder / name / VALUES)
        expected = load_arrays(folder / name / EXPECTED)
        written = sorted((folder / name).glob("**/*.mlirbc"))
        assert len(written) > 1, f"nothing of another jaxlib in {folder / name}"
        for path in written:
            version = bindings.artifact_version(path.read_bytes())
            assert version == bindings.PORTABLE_VERSION, f"{path}: StableHLO {version}"
            artifact = Module.read(path)
            assert artifact.name == program.module.name, path
            assert composite_count(artifact) == program.composites, path
            agree(run(artifact, *values), expected, path)
            print(f"jaxlib {jaxlib.__version__} reads and runs {path.relative_to(folder)}")


def agree(results: Sequence[Any], expected: Sequence[np.ndarray], path: Path) -> None:
    """Within 1e-5 of the largest value: releases of XLA round differently."""
    for number, (actual, right) in enumerate(zip(results, expected, strict=True)):
        atol = 1e-6 + 1e-5 * np.abs(right).max(initial=0)
        message = f"{path}, result {number}"
        np.testing.assert_allclose(np.asarray(actual), right, rtol=0, atol=atol, err_msg=message)


def save_arrays(path: Path, arrays: Sequence[np.ndarray]) -> None:
    np.savez(path, *arrays)


def load_arrays(path: Path) -> list[np.ndarray]:
    with np.load(path) as arrays:
        return [arrays[f"arr_{number}"] for number in range(len(arrays.files))]


if __name__ == "__main__":
    {"write": write, "again": again, "read": read}[sys.argv[1]](Path(sys.argv[2]))
