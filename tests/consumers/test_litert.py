"""LiteRT puts its own operators where a vendor registry names them, and its numbers agree.

The models are converted in a process of their own, which starts with the registries of
examples/registries, as a user's would.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from composites_testing.processes import run

REGISTRIES = Path(__file__).parents[2] / "examples" / "registries"

FILES = ("litert", "litert_odml", "litert_tfl", "litert_lm", "litert_quant", "litert_training")

FOUND = yaml.safe_load(Path(__file__).with_name("litert.yaml").read_text(encoding="utf-8"))
EXPECTED, TRAINING = FOUND["inference"], FOUND["training"]
OPERATORS = {operator for model in EXPECTED.values() for operator in model["operators"]}


def converted(*subjects: str) -> dict[str, Any]:
    """Results of convert_to_litert.py, by subject."""
    inherited = os.environ.get("PYTHONPATH")
    done = run(
        *(sys.executable, str(Path(__file__).with_name("convert_to_litert.py")), *subjects),
        PJRT_DEVICE="CPU",
        XLA_COMPOSITE_REGISTRY=os.pathsep.join(str(REGISTRIES / f"{f}.yaml") for f in FILES),
        PYTHONPATH=os.pathsep.join([str(REGISTRIES), *filter(None, [inherited])]),
    )
    reports: dict[str, Any] = json.loads(done.succeeded().stdout.splitlines()[-1])
    return reports


def check_inference(name: str, report: Mapping[str, Any]) -> None:
    composites, operators = EXPECTED[name].values()
    assert report["composites"] == composites, name
    assert {key: n for key, n in report["operators"].items() if key in OPERATORS} == operators, name
    # What gelu and softmax would have been decomposed into.
    assert not {"ERF", "TANH", "EXP"} & set(report["operators"]), name
    assert report["difference"] < 1e-6, name


def check_training(name: str, report: Mapping[str, Any]) -> None:
    composites, operators = TRAINING[name].values()
    assert report["composites"] == composites, name
    assert {key: report["operators"].get(key) for key in operators} == operators, name
    assert "STABLEHLO_COMPOSITE" not in report["operators"], name
    assert report["compared"] == report["trained"] + 1, name  # each gradient, and the loss
    assert report["difference"] < 1e-5, name


def check_calls(reports: Mapping[str, Any]) -> None:
    delegates = ("DELEGATE",)  # behind the operators that XNNPACK runs
    operators = {
        name: [operator for operator in report["operators"] if operator not in delegates]
        for name, report in reports.items()
    }
    models = {name for name in reports if name[-1].isdigit()}  # samples of litert_lm.yaml
    for name in models:
        claimed = f"odml.{name.split()[0]}" in reports[name]["composites"]
        assert claimed == (name != "swiglu 1"), name  # a gate of three channels
        assert (operators[name] == ["STABLEHLO_COMPOSITE"]) == claimed, name
        assert reports[name]["difference"] < 5e-6, name
    assert len(models) == 19
    assert {name: sequence for name, sequence in operators.items() if name not in models} == {
        "slice": ["SLICE"],
        "unpack": ["UNPACK", "MUL", "MUL"],
        "random_uniform": ["RANDOM_UNIFORM", "ADD"],
        "rope": ["STABLEHLO_COMPOSITE"],  # with a kernel in the GPU delegate
        "update_kv_cache": ["odml.update_kv_cache"],
        "quantize_and_dequantize": ["odml.quantize_and_dequantize"],
        "fake_quant": ["QUANTIZE", "DEQUANTIZE", "MUL"],
        "quantize and dequantize": ["QUANTIZE", "DEQUANTIZE", "ADD"],
        # Products of integers: what is quantized around them has become part of them.
        "linear": ["QUANTIZE", "QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE"],
        "linear of integers": ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE"],
    }
    for name in ("fake_quant", "quantize and dequantize", "linear", "linear of integers"):
        assert reports[name]["difference"] < 1e-6, name
    for name in ("slice", "unpack", "rope"):
        assert reports[name]["difference"] < 1e-6
        assert reports[name]["repeats"]
    drawn = reports["random_uniform"]
    assert not drawn["repeats"]  # LiteRT draws numbers, and does not run the decomposition
    assert 0 <= drawn["range"][0] < 0.05
    assert 0.95 < drawn["range"][1] < 1
    assert abs(drawn["mean"] - 0.5) < 0.05


@pytest.mark.process
def test_flatbuffers_hold_litert_operators_and_agree() -> None:
    """LiteRT runs a call of each form, a training step, and functions that only LiteRT has."""
    reports = converted("operators", "conv_net:train", "calls")
    check_inference("operators", reports["operators"])
    check_training("conv_net", reports["conv_net:train"])
    check_calls(reports["calls"])


@pytest.mark.exhaustive
def test_other_models_hold_litert_operators_and_agree() -> None:
    training = [f"{name}:train" for name in TRAINING]
    reports = converted(*EXPECTED, *training)
    for name in EXPECTED:
        check_inference(name, reports[name])
    for name in TRAINING:
        check_training(name, reports[f"{name}:train"])
