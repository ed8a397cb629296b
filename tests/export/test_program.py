"""Programs on disk and off it: save, load, run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import composites
from composites import Program, ProgramError
from lowering.stablehlo import Module, RunError, VersionError


@pytest.fixture(scope="module")
def small(computed: Any) -> tuple[torch.nn.Module, Program]:
    """gelu of a linear layer."""
    torch.manual_seed(0)
    module = computed(lambda self, x: torch.nn.functional.gelu(self.linear(x)))
    return module, composites.export(module, (torch.ones(2, 4),))


def test_a_loaded_program_is_the_saved_one(exported: Any, tmp_path: Path) -> None:
    program = exported("conv_net", "step")
    program.save(tmp_path / "made" / "here")
    loaded = Program.load(tmp_path / "made" / "here")
    assert loaded.mlir == program.mlir
    assert (loaded.inputs, loaded.outputs) == (program.inputs, program.outputs)
    assert loaded.composites == program.composites


def test_the_files_of_a_program(small: Any, tmp_path: Path) -> None:
    _, program = small
    program.save(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["manifest.json", "program.mlir", "program.mlirbc"]
    assert (tmp_path / "program.mlir").read_text() == program.mlir
    assert json.loads((tmp_path / "manifest.json").read_text()) == {
        "format": 2,
        "inputs": [
            {"name": "param:linear.weight", "shape": [4, 4], "dtype": "f32", "updates": None},
            {"name": "param:linear.bias", "shape": [4], "dtype": "f32", "updates": None},
            {"name": "arg:0", "shape": [2, 4], "dtype": "f32", "updates": None},
        ],
        "outputs": [{"name": "out:0", "shape": [2, 4], "dtype": "f32", "updates": None}],
        "composites": {"ptxla.gelu": 1},
        "sha256": {
            name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
            for name in ("program.mlir", "program.mlirbc")
        },
    }


def test_the_artifact_is_for_the_version_asked_for(
    example: Any, exported: Any, agree: Any, tmp_path: Path
) -> None:
    model, program = example("vit"), exported("vit", "inference")
    program.save(tmp_path, portable="1.0.0")
    data = (tmp_path / "program.mlirbc").read_bytes()
    assert b"StableHLO_v1.0.0" in data
    artifact = Module.from_bytes(data)
    read = Program(artifact, program.inputs, program.outputs)
    assert read.composites == program.composites
    agree(read.run(model.values(program)), model.outputs())


def test_weights_are_written_on_request(small: Any, tmp_path: Path) -> None:
    module, program = small
    weights = program.module_weights(module)
    program.save(tmp_path, weights=weights)
    written = load_file(tmp_path / "weights.safetensors")
    assert sorted(written) == ["param:linear.bias", "param:linear.weight"]
    for name, array in written.items():
        np.testing.assert_array_equal(array, weights[name].detach().numpy())


def test_weights_in_bfloat16(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = torch.nn.Linear(4, 4).bfloat16()
    x = torch.linspace(-1, 1, 8).reshape(2, 4).bfloat16()
    program = composites.export(module, (x,))
    program.save(tmp_path, weights=program.module_weights(module))
    from safetensors.torch import load_file as load_torch

    written = load_torch(tmp_path / "weights.safetensors")
    assert torch.equal(written["param:weight"], module.weight)
    out = program.run(written | {"arg:0": x})["out:0"]
    assert out.dtype == ml_dtypes.bfloat16
    expected = module(x).detach().float().numpy()
    np.testing.assert_allclose(out.astype(np.float32), expected, rtol=0, atol=2**-7)


def test_numpy_and_torch_values_may_be_mixed(small: Any, tmp_path: Path) -> None:
    module, program = small
    mixed = {"param:linear.weight": module.linear.weight, "param:linear.bias": np.ones(4, "f4")}
    program.save(tmp_path, weights=mixed)
    written = load_file(tmp_path / "weights.safetensors")
    np.testing.assert_array_equal(written["param:linear.bias"], np.ones(4))
    np.testing.assert_array_equal(
        written["param:linear.weight"], module.linear.weight.detach().numpy()
    )


def test_run_takes_tensors_or_arrays_in_order_or_by_name(small: Any, agree: Any) -> None:
    module, program = small
    x = torch.linspace(-2, 2, 8).reshape(2, 4)
    expected = {"out:0": module(x)}
    named = {**program.module_weights(module), "arg:0": x}
    agree(program.run(named), expected)
    agree(program.run(*named.values()), expected)
    agree(program.run(*(value.detach().numpy() for value in named.values())), expected)


def refused(call: Callable[[], object], message: str, kind: type[Exception] = ProgramError) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message


def test_inputs_that_are_missing_or_unknown(small: Any) -> None:
    _, program = small
    refused(
        lambda: program.run({"arg:0": torch.ones(2, 4)}),
        "inputs are missing: param:linear.weight, param:linear.bias",
    )
    refused(
        lambda: program.run({"param:linear.wight": torch.ones(4, 4)}),
        "there is no input 'param:linear.wight'; did you mean 'param:linear.weight'?",
    )
    refused(
        lambda: program.run(),
        "the program takes 3 inputs, got 0; give one array for each of its inputs, or one mapping"
        " from their names",
    )


def test_a_platform_that_is_not_there(small: Any) -> None:
    module, program = small
    values = {**program.module_weights(module), "arg:0": torch.ones(2, 4)}
    with pytest.raises(RunError, match=re.escape("jax has no platform 'abacus' on this machine")):
        program.run(values, platform="abacus")


def test_a_save_that_fails_writes_nothing(small: Any, tmp_path: Path) -> None:
    module, program = small
    folder = tmp_path / "program"
    with pytest.raises(VersionError, match=re.escape("StableHLO 99.0.0 cannot be written")):
        program.save(folder, portable="99.0.0")
    refused(
        lambda: program.save(folder, weights={"param:linear.wight": module.linear.weight}),
        "there is no input 'param:linear.wight'; did you mean 'param:linear.weight'?",
    )
    refused(
        lambda: program.save(folder, weights={"param:linear.weight": torch.ones(4)}),
        "param:linear.weight has shape (4, 4), but its value has shape (4,)",
    )
    assert not folder.exists()


def test_a_folder_that_cannot_be_written(small: Any, tmp_path: Path) -> None:
    _, program = small
    file = tmp_path / "file"
    file.write_text("mine")
    refused(lambda: program.save(file), f"{file} cannot be written: File exists")
    assert file.read_text() == "mine"


def test_a_manifest_that_cannot_be_read(small: Any, tmp_path: Path) -> None:
    _, program = small
    manifest = tmp_path / "manifest.json"
    refused(lambda: Program.load(tmp_path), f"{manifest} cannot be read: No such file or directory")
    program.save(tmp_path)
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"format": 3}))
    refused(lambda: Program.load(tmp_path), f"{manifest} has format 3; this version reads 1 and 2")
    manifest.write_text(json.dumps({"format": 2, "outputs": []}))
    refused(lambda: Program.load(tmp_path), f"{manifest} is damaged: inputs is missing")
    manifest.write_text('{"format"')
    refused(
        lambda: Program.load(tmp_path),
        f"{manifest} is not JSON: Expecting ':' delimiter: line 1 column 10 (char 9)",
    )
    manifest.write_text(json.dumps(content))
    (tmp_path / "program.mlir").unlink()
    missing = tmp_path / "program.mlir"
    refused(lambda: Program.load(tmp_path), f"{missing} cannot be read: No such file or directory")
