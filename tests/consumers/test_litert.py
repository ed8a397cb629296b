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
from composites_testing.processes import run

REGISTRIES = Path(__file__).parents[2] / "examples" / "registries"

FILES = ("litert", "litert_odml", "litert_tfl", "litert_training")

# By model: composites of the program, and operators of the flatbuffer. Norms and attention stay
# composites, for delegates.
EXPECTED = {
    "bert": (
        {
            "aten.gelu.default": 3,
            "odml.embedding_lookup": 3,
            "odml.group_norm": 6,
            "odml.softmax": 2,
        },
        {"GELU": 3, "SOFTMAX": 2, "EMBEDDING_LOOKUP": 3, "STABLEHLO_COMPOSITE": 6},
    ),
    # LiteRT has no name for silu and batch norm: composites that run their decomposition.
    "conv_net": (
        {
            "aten.avg_pool2d.default": 1,
            "aten.hardswish.default": 1,
            "ptxla.batch_norm_inference": 2,
            "litert.max_pool2d": 1,
            "ptxla.silu": 1,
        },
        {"HARD_SWISH": 1, "AVERAGE_POOL_2D": 1, "STABLEHLO_COMPOSITE": 4},
    ),
    "operators": (
        {
            "aten.avg_pool2d.default": 4,
            "aten.gelu.default": 1,
            "aten.hardswish.default": 1,
            "odml.embedding_lookup": 1,
            "odml.group_norm": 2,
            "odml.l2_norm": 1,
            "odml.rms_norm": 1,
            "odml.scaled_dot_product_attention": 1,
            "odml.softmax": 2,  # one of them in the decomposition of attention
            "odml.upsample_bilinear2d": 1,
            "ptxla.avg_pool2d": 3,  # in the decompositions of LiteRT's
            "tfl.mean": 1,
            "tfl.mirror_pad": 1,
            "tfl.pack": 1,
            "tfl.resize_nearest_neighbor": 1,
        },
        {
            "GELU": 1,
            "SOFTMAX": 1,
            "HARD_SWISH": 1,
            "EMBEDDING_LOOKUP": 1,
            "AVERAGE_POOL_2D": 4,
            "RESIZE_BILINEAR": 1,
            "RESIZE_NEAREST_NEIGHBOR": 1,
            "MEAN": 1,
            "MIRROR_PAD": 1,
            "PACK": 1,
            "STABLEHLO_COMPOSITE": 5,
        },
    ),
}
OPERATORS = {operator for _, operators in EXPECTED.values() for operator in operators}


# Of a training step, whose other composites are decomposed.
TRAINING = {
    "bert": (
        {"aten.gelu.default": 3, "odml.softmax": 2},
        {"GELU": 3, "SOFTMAX": 2},
    ),
    # They stack the four values of a window.
    "conv_net": (
        {"aten.hardswish.default": 1, "tfl.mean": 1, "tfl.pack": 1},
        {"HARD_SWISH": 1, "PACK": 1},
    ),
}


def converted(*subjects: str) -> dict[str, Any]:
    """What convert_to_litert.py finds, by subject."""
    inherited = os.environ.get("PYTHONPATH")
    done = run(
        *(sys.executable, str(Path(__file__).with_name("convert_to_litert.py")), *subjects),
        PJRT_DEVICE="CPU",
        XLA_COMPOSITE_REGISTRY=os.pathsep.join(str(REGISTRIES / f"{f}.yaml") for f in FILES),
        PYTHONPATH=os.pathsep.join([str(REGISTRIES), *filter(None, [inherited])]),
    )
    assert done.code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check_inference(name: str, found: Mapping[str, Any]) -> None:
    composites, operators = EXPECTED[name]
    assert found["composites"] == composites, name
    assert {key: n for key, n in found["operators"].items() if key in OPERATORS} == operators, name
    # What gelu and softmax would have been decomposed into.
    assert not {"ERF", "TANH", "EXP"} & set(found["operators"]), name
    assert found["difference"] < 1e-6, name


def check_training(name: str, found: Mapping[str, Any]) -> None:
    composites, operators = TRAINING[name]
    assert found["composites"] == composites, name
    assert {key: found["operators"].get(key) for key in operators} == operators, name
    assert "STABLEHLO_COMPOSITE" not in found["operators"], name
    assert found["compared"] == found["trained"] + 1, name  # each gradient, and the loss
    assert found["difference"] < 1e-5, name


def check_calls(found: Mapping[str, Any]) -> None:
    operators = {name: each["operators"] for name, each in found.items()}
    assert operators == {
        "slice": ["SLICE"],
        "unpack": ["UNPACK", "MUL", "MUL"],
        "random_uniform": ["RANDOM_UNIFORM", "ADD"],
        "rope": ["STABLEHLO_COMPOSITE"],  # with a kernel in the GPU delegate
        "update_kv_cache": ["odml.update_kv_cache"],
        "quantize_and_dequantize": ["odml.quantize_and_dequantize"],
    }
    assert all(sum(each["composites"].values()) == 1 for each in found.values())
    for name in ("slice", "unpack", "rope"):
        assert found[name]["difference"] < 1e-6
        assert found[name]["repeats"]
    drawn = found["random_uniform"]
    assert not drawn["repeats"]  # LiteRT draws numbers, and does not run the decomposition
    assert 0 <= drawn["range"][0] < 0.05
    assert 0.95 < drawn["range"][1] < 1
    assert abs(drawn["mean"] - 0.5) < 0.05


@pytest.mark.process
def test_flatbuffers_hold_litert_operators_and_agree() -> None:
    """Of one call of each form, a training step, and functions that only LiteRT has."""
    found = converted("operators", "conv_net:train", "calls")
    check_inference("operators", found["operators"])
    check_training("conv_net", found["conv_net:train"])
    check_calls(found["calls"])


@pytest.mark.exhaustive
def test_other_models_hold_litert_operators_and_agree() -> None:
    training = [f"{name}:train" for name in TRAINING]
    found = converted(*EXPECTED, *training)
    for name in EXPECTED:
        check_inference(name, found[name])
    for name in TRAINING:
        check_training(name, found[f"{name}:train"])
