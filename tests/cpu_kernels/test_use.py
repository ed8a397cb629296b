"""The package in use: conditions, refusals, errors, compilation, and whole programs."""

import importlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.command_line import invoke
from composites_testing.modules import Calling
from torch.nn import functional

import composites
from benchmarks.training_steps import causal_gpt
from composites import Program
from lowering.stablehlo import RunError
from lowering.stablehlo.errors import BindError

ATTENTION = Calling(lambda x: functional.scaled_dot_product_attention(x, x, x))


def reasons(program: Program) -> dict[str, str | None]:
    return {use.composite: use.reason for use in program.with_kernels("cpu").kernels}


def test_the_registry_is_right_and_listed(registry: Path) -> None:
    result = invoke("check", registry)
    assert (result.exit_code, result.stderr) == (0, "")
    listed = invoke("list", "--kernels", COLUMNS="300")
    assert "cpu_kernels.losses:cross_entropy_loss" in listed.stdout
    assert "no entry produces it" not in listed.stdout


@pytest.mark.slow
def test_small_attention_keeps_its_decomposition() -> None:
    small, large = (
        composites.export(ATTENTION, (torch.empty(2, 6, length, 64),)) for length in (32, 128)
    )
    name = "ptxla.scaled_dot_product_attention"
    assert "needs query.numel()" in str(reasons(small)[name])
    assert reasons(large)[name] is None


@pytest.mark.slow
def test_a_key_of_nan_makes_its_head_nan() -> None:
    query = torch.randn(2, 6, 128, 64)
    query[0, 1, 3] = torch.nan  # as key, it gives all other rows of its head a score of NaN
    step = composites.export(ATTENTION, (query,)).compile("cpu")
    outputs, _ = step(step.init({}), query)
    assert all(use.kernel is not None for use in step.kernels)
    np.testing.assert_array_equal(np.isnan(outputs["out:0"]), ATTENTION(query).isnan())


def test_calls_that_are_refused() -> None:
    up = torch.nn.Upsample(scale_factor=1.7, mode="bilinear")
    uses = reasons(composites.export(up, (torch.empty(2, 3, 16, 16),)))
    assert "takes no scale 1.7 from 16 to 27" in str(uses["ptxla.upsample_bilinear2d"])
    sampled = Calling(partial(functional.grid_sample, align_corners=False))
    wide = torch.empty(2, 3, 4, 5).double(), torch.empty(2, 7, 6, 2).double()
    assert "f64" in str(reasons(composites.export(sampled, wide))[GRID_SAMPLER])
    without_channels = torch.empty(1, 0, 8, 8), torch.empty(4, 0, 3, 3)
    uses = reasons(composites.export(Calling(functional.conv2d), without_channels))
    assert "needs x.shape[1] > 0" in str(uses["cpu_kernels.conv"])


GRID_SAMPLER = "ptxla.grid_sampler_2d"


@pytest.mark.slow
def test_the_entry_of_convolutions_has_the_bits_of_stock(registry: Path) -> None:
    arguments = ["verify", "--registry", str(registry), "--samples", "21", "--strict", "--json"]
    result = invoke(*arguments, "--dtypes", "f32,bf16")
    assert result.exit_code == 0, result.output
    for report in json.loads(result.stdout):
        assert (report["claimed"] > 0, report["unclaimed"], report["same_bits"]) == (True, [], True)


@pytest.mark.slow
def test_a_forward_alone_runs_on_kernels() -> None:
    """A composite without gradients lacks what a backward needs; the kernel returns it anyway."""
    logits, target = torch.randn(5, 30), torch.randint(30, (5,))
    step = composites.export(Calling(functional.cross_entropy), (logits, target)).compile("cpu")
    outputs, _ = step(step.init({}), logits, target)
    assert step.kernels[0].kernel == "cpu_kernels.losses:cross_entropy_loss"
    expected = functional.cross_entropy(logits, target)
    np.testing.assert_allclose(outputs["out:0"], expected, rtol=2e-6)
    for label in (-1, 30):
        message = re.escape(f"label {label} of row 2 is neither in 0..29")
        with pytest.raises(RunError, match=message):
            step(step.init({}), logits, torch.tensor([1, 2, label, 3, -100]))


@pytest.mark.slow
def test_the_kernel_that_refuses_a_value_is_named_among_others() -> None:
    """None of them fails on operands of ones, so the message is all that tells which one did."""
    model, batch = causal_gpt(160, 512, 128, 1)
    step = composites.export(model, (), kwargs=dict(batch), train=True).compile("cpu")
    assert sum(use.kernel is not None for use in step.kernels) > 2
    labels = torch.full_like(batch["labels"], 512)
    with pytest.raises(RunError, match="label 512 of row 0") as raised:
        step(step.init(model), **{**batch, "labels": labels})
    _, names = str(raised.value).split("; the kernel that fails is ")
    assert re.findall(r"ptxla\.\w+", names) == ["ptxla.cross_entropy_loss"]


@pytest.mark.slow
def test_an_index_out_of_range_is_an_error() -> None:
    table = torch.nn.Embedding(2048, 192)
    table.register_forward_hook(lambda module, inputs, result: result.square().sum())
    step = composites.export(table, (torch.tensor([1, 2]),), train=True).compile("cpu")
    with pytest.raises(RunError, match=r"index 2048 is not in 0\.\.2047"):
        step(step.init(table), torch.tensor([1, 2048]))


@pytest.mark.slow
def test_a_training_step_has_the_numbers_of_one_without_kernels() -> None:
    torch.manual_seed(0)
    model, batch = causal_gpt(160, 512, 128, 2)
    optimizer = partial(torch.optim.AdamW, lr=1e-3)
    program = composites.export(model, (), kwargs=dict(batch), optimizer=optimizer)
    losses: dict[str | None, list[float]] = {}
    for kernels in ("auto", None):
        step = program.compile("cpu", kernels)
        state, losses[kernels] = step.init(model), []
        for _ in range(5):
            loss, state = step(state, **batch)
            losses[kernels].append(float(loss))
        taken = {use.composite for use in step.kernels if use.kernel is not None}
        assert ("ptxla.cross_entropy_loss_backward" in taken) is (kernels == "auto")
    np.testing.assert_allclose(losses["auto"], losses[None], rtol=1e-5)
    assert losses["auto"][-1] < losses["auto"][0]


# ---- compilation ----


@pytest.fixture
def library(registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, with an empty cache of its own."""
    monkeypatch.setenv("CPU_KERNELS_CACHE", str(tmp_path / "cache"))
    module = importlib.import_module("cpu_kernels.library")
    cached = module._of_compiler
    cached.cache_clear()
    yield module
    cached.cache_clear()


SLOW_COMPILER = """#!/bin/sh
case "$*" in *--version* | *--help*) exit ;; esac
echo run >>"$0.runs"
sleep 0.5
while [ "$1" != -o ]; do shift; done
echo >"$2"
"""


def test_a_process_waits_for_one_that_compiles_the_same(
    library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "compiler"
    slow.write_text(SLOW_COMPILER)
    slow.chmod(0o755)
    monkeypatch.setenv("CXX", str(slow))
    with (
        ThreadPoolExecutor() as threads
    ):  # a lock is of an open file, so that they stand for processes
        paths = list(threads.map(library.compiled, ["pooling", "pooling", "losses"]))
    assert sorted(paths[0].parent.iterdir()) == sorted(set(paths))
    assert len((tmp_path / "compiler.runs").read_text().splitlines()) == len(set(paths)) == 2


@pytest.mark.parametrize("folder", ["file", "file/folder"])
def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_do(
    folder: str, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CPU_KERNELS_CACHE", str(tmp_path / folder))
    with pytest.raises(library.CompilationError, match=f"kept in .*{folder} .*CPU_KERNELS_CACHE"):
        library.compiled("pooling")


def test_a_step_without_a_compiler_names_composite_and_kernel(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    library.register.cache_clear()
    program = composites.export(
        Calling(functional.cross_entropy), (torch.randn(5, 31), torch.randint(31, (5,)))
    )
    with pytest.raises(BindError, match=r"ptxla\.cross_entropy_loss: cross_entropy_loss .*CXX"):
        program.compile("cpu")
    library.register.cache_clear()
