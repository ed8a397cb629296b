"""All files of examples/registries: `composites check`, `lock` and `verify` take them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from composites_testing.command_line import invoke
from composites_testing.modules import Calling
from composites_testing.selection import variants
from jax import lax

import composites
from composites.contracts.lock import write_lock
from composites.registry.catalog import load_catalog
from lowering.locking import lock_registry
from lowering.verification.results import Verdict
from lowering.verification.subjects import make_subjects
from lowering.verification.verify import verify

REGISTRIES = Path(__file__).parents[2] / "examples" / "registries"
FILES = sorted(path.stem for path in REGISTRIES.glob("*.yaml"))

VERIFIED = (
    *("chlo", "litert", "litert_lm", "litert_odml", "litert_tfl", "mps", "openvino"),
    *("tenstorrent_next", "xla"),
)
"""Files of which each entry has samples and a canonical call, but for the norm of a model."""
SCALED_DOT = hasattr(lax, "scaled_dot")
"""JAX 0.7.1 has no scaled products, so that xla.mx_mm claims no call."""
WITHOUT_CALLS = ("odml.llama_rms_norm", *(() if SCALED_DOT else ("xla.mx_mm",)))
"""The first is a method of a model."""


def test_check(registries: Callable[..., None]) -> None:
    """xla_mx is for torchao's tensors; see tests/fx/test_torchao.py."""
    wrong = {}
    for file in sorted({*FILES} - {"xla_mx"}):
        registries(file)
        result = invoke("check", REGISTRIES / f"{file}.yaml")
        if (result.exit_code, result.stderr) != (0, ""):
            wrong[file] = result.output
    assert wrong == {}


def verified(file: str, dtype: str, *names: str) -> None:
    catalog = load_catalog([str(REGISTRIES / f"{file}.yaml")], in_place=True)
    entries = catalog.registries[0].composites
    chosen = [entry for entry in entries if not names or entry.name in names]
    for target in make_subjects(chosen, catalog):
        for row in verify(target, catalog, (dtype,), 3):
            if row.entry == "odml.llama_rms_norm":
                assert row.verdict is Verdict.NOT_VERIFIED
                continue
            if row.entry in WITHOUT_CALLS:
                assert row.claimed == 0
                continue
            assert (row.verdict, row.claimed > 0) == (Verdict.VERIFIED, True), row


@variants("file", VERIFIED, fast=["litert_odml"])
def test_verify(file: str, registries: Callable[..., None]) -> None:
    registries(file)
    verified(file, "f32")


def test_verify_random_numbers(registries: Callable[..., None]) -> None:
    registries("tenstorrent")
    verified("tenstorrent", "f32", "uniform")


@pytest.mark.slow
def test_verify_quantization(registries: Callable[..., None]) -> None:
    registries("litert_quant")
    verified("litert_quant", "f32", "fake_quant", "quantize", "fake_quant_channels")
    verified("litert_quant", "i8", "dequantize", "dequantize_channels")


@pytest.mark.exhaustive
@pytest.mark.parametrize("file", ["chlo", "xla"])
def test_verify_in_bf16(file: str, registries: Callable[..., None]) -> None:
    registries(file)
    verified(file, "bf16")


@variants("file", VERIFIED, fast=["xla"])
def test_lock(file: str, registries: Callable[..., None]) -> None:
    """Entries have a canonical call, whose decomposition is hashed."""
    registries(file)
    catalog = load_catalog([str(REGISTRIES / f"{file}.yaml")], in_place=True)
    contracts = lock_registry(catalog.registries[0], catalog).contracts
    assert [c.entry for c in contracts if not c.calls and c.entry not in WITHOUT_CALLS] == []


@pytest.mark.skipif(not SCALED_DOT, reason="JAX 0.7.1 has no scaled products")
def test_a_program_is_understood_with_the_lock_of_its_registry(
    registries: Callable[..., None], tmp_path: Path
) -> None:
    """Attributes that are arrays and types are compared too, and those that JAX writes."""
    registries("xla")
    import xla_ops

    lock, program = tmp_path / "xla.lock", tmp_path / "program.mlir"
    catalog = load_catalog([str(REGISTRIES / "xla.yaml")], in_place=True)
    write_lock(lock_registry(catalog.registries[0], catalog), lock)

    product = Calling(lambda *operands: xla_ops.mx_mm(*operands))  # which is caught by its name
    (arguments, _), *_ = xla_ops.mx_mm_samples(torch.bfloat16)
    exported = composites.export(product, arguments[:4], ops=["xla.*"])
    assert exported.composites == {"xla.mx_mm": 1, "xla.scaled_dot": 1}
    program.write_text(exported.mlir)
    result = invoke("inspect", program, "--against", lock)
    assert (result.exit_code, result.stderr) == (0, "")
    text = exported.mlir.replace("[[[1], [1]], [[], []]]", "[[[1], [0]], [[], []]]")
    program.write_text(text.replace("preferred_element_type = bf16", "preferred_element_type = 1"))
    result = invoke("inspect", program, "--against", lock, COLUMNS="200")
    assert result.exit_code == 1
    assert "dimension_numbers is (((1,), (0,)), ((), ()))" in result.stdout
    assert "preferred_element_type = 1 is not of type type" in result.stdout
