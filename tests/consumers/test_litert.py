"""LiteRT puts its own operators where a vendor registry names them, and its numbers agree.

The models are converted in a process of their own, which starts with the registries of
examples/registries, as a user's would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REGISTRIES = Path(__file__).parents[2] / "examples" / "registries"

# By model: composites of the program, and operators of the flatbuffer.
EXPECTED = {
    "bert": ({"aten.gelu.default": 3, "odml.softmax": 2}, {"GELU": 3, "SOFTMAX": 2}),
    "gpt2": ({"aten.gelu.default": 2, "odml.softmax": 2}, {"GELU": 2, "SOFTMAX": 2}),
    "vit": ({"aten.gelu.default": 2, "odml.softmax": 2}, {"GELU": 2, "SOFTMAX": 2}),
    # LiteRT has no name for silu: a composite that runs its decomposition.
    "conv_net": (
        {"aten.hardswish.default": 1, "ptxla.silu": 1},
        {"HARD_SWISH": 1, "STABLEHLO_COMPOSITE": 1},
    ),
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_flatbuffer_holds_litert_operators_and_agrees(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("convert_to_litert.py")), name],
        env=os.environ
        | {
            "PJRT_DEVICE": "CPU",
            "XLA_COMPOSITE_REGISTRY": f"{REGISTRIES / 'litert.yaml'}{os.pathsep}"
            f"{REGISTRIES / 'litert_odml.yaml'}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    composites, operators = EXPECTED[name]
    assert found["composites"] == composites
    named = ("GELU", "SOFTMAX", "HARD_SWISH", "STABLEHLO_COMPOSITE")
    assert {key: n for key, n in found["operators"].items() if key in named} == operators
    # What gelu and softmax would have been decomposed into.
    assert not {"ERF", "TANH", "EXP"} & set(found["operators"])
    assert found["difference"] < 1e-6
