"""OpenVINO reads the flatbuffers that LiteRT's converter writes: it takes odml.rms_norm, inlines
the other composites, and its numbers agree."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from composites_testing.processes import run

REGISTRIES = Path(__file__).parents[2] / "examples" / "registries"
TAKEN = {
    "rms_norm": True,
    "rms_norm_without_weight": False,
    "layer_norm": False,
    "attention": False,
}
"""Return whether OpenVINO recognizes the composite of a call."""


@pytest.mark.process
def test_norms_are_taken_and_others_inlined(tmp_path: Path) -> None:
    import openvino

    inherited = os.environ.get("PYTHONPATH")
    script = str(Path(__file__).with_name("convert_calls_to_litert.py"))
    run(
        *(sys.executable, script, str(tmp_path)),
        PJRT_DEVICE="CPU",
        XLA_COMPOSITE_REGISTRY=str(REGISTRIES / "openvino.yaml"),
        PYTHONPATH=os.pathsep.join([str(REGISTRIES), *filter(None, [inherited])]),
    ).succeeded()
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    for name, is_taken in TAKEN.items():
        model = core.read_model(tmp_path / f"{name}.tflite")
        assert ("Sqrt" in {node.get_type_name() for node in model.get_ops()}) == is_taken, name
        numbers = np.load(tmp_path / f"{name}.npz")
        inputs = sorted(model.inputs, key=lambda value: str(value.get_any_name()))
        arrays = {value: numbers[f"input{n}"] for n, value in enumerate(inputs)}
        (result,) = core.compile_model(model, "CPU")(
            {value.get_any_name(): array for value, array in arrays.items()}
        ).values()
        np.testing.assert_allclose(result, numbers["output"], rtol=1e-5, atol=1e-6, err_msg=name)
