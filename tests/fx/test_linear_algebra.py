"""Linear algebra of exports without torch_xla: factors that reconstruct, and their gradients.

test_opinfo.py has the numbers of other operators.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from composites_testing.modules import Calling
from torch import Tensor, linalg

import composites
from composites import ExportError
from composites.torch_internals import pytree
from lowering.stablehlo.errors import RefusedOperationError


def tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def random(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.manual_seed(3))


def positive(x: Tensor) -> Tensor:
    """Positive definite matrices."""
    return x @ x.mH + torch.eye(x.size(-1), dtype=x.dtype, device=x.device)


def run(function: Callable[[Tensor], Any], x: Tensor) -> list[Tensor]:
    """The results of an exported function, whose types and shapes are those of PyTorch."""
    program = composites.export(Calling(function), (x,), ops=[], frontend="fx")
    results = [torch.from_numpy(result.copy()) for result in program.run(x).values()]
    expected = tensors(function(x))
    assert [(t.dtype, t.shape) for t in results] == [(t.dtype, t.shape) for t in expected]
    return results


def test_factors_reconstruct() -> None:
    def every(x: Tensor) -> Any:
        both = torch.complex(x, x.flip(-1))
        return [
            linalg.qr(both[..., :3]),
            linalg.qr(x[..., :3], "complete"),
            linalg.qr(x, "r"),
            torch.geqrf(x),
            linalg.eigh(both),
            linalg.eigh(x, UPLO="U"),
            linalg.eigvalsh(x),
            linalg.svd(both[:, :2]),
            linalg.svd(x[..., :2], full_matrices=False),
            linalg.svdvals(x),
        ]

    def products(x: Tensor, factors: Sequence[Tensor]) -> list[Tensor]:
        """Numbers in which the signs and phases of vectors cancel."""
        q, r, whole, whole_r, _, r_alone, raw, _ = factors[:8]
        values, vectors, upper_values, upper_vectors, alone = factors[8:13]
        u, s, vh, v, t, wh, singular = factors[13:]
        return [
            q @ r,
            q.mH @ q,
            whole @ whole_r,
            whole.mH @ whole,
            r_alone.abs(),
            raw.triu().abs(),
            values,
            (vectors * values.unsqueeze(-2)) @ vectors.mH,
            (upper_vectors * upper_values.unsqueeze(-2)) @ upper_vectors.mH,
            alone,
            (u * s.unsqueeze(-2)) @ vh[:, :2],
            vh @ vh.mH,
            (v * t.unsqueeze(-2)) @ wh,
            singular,
        ]

    x = random(2, 4, 4)
    actual, expected = products(x, run(every, x)), products(x, tensors(every(x)))
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


DERIVED: Mapping[str, Callable[[Tensor], Any]] = {
    "eigh": lambda x: eigenvectors(positive(x)),
    "norms": lambda x: (linalg.matrix_norm(x, 2), linalg.matrix_norm(x, "nuc"), linalg.cond(x)),
    "pinv": lambda x: (linalg.pinv(x[..., :3]), linalg.pinv(positive(x), hermitian=True)),
    "qr": lambda x: positive(linalg.qr(x)[1]),
    "svd": lambda x: (linalg.svdvals(x), singular_vectors(x)),
}


def eigenvectors(x: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = linalg.eigh(x)
    return values, vectors.abs()


def singular_vectors(x: Tensor) -> Tensor:
    u, _, vh = linalg.svd(x)
    return u @ vh


class Loss(torch.nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(random(2, 4, 4, dtype=dtype))

    def forward(self) -> Tensor:
        losses = [
            result.abs().square().sum() / (1 + result.detach().abs().square().sum())
            for call in DERIVED.values()
            for result in tensors(call(self.weight))
            if result.requires_grad
        ]
        return torch.stack(losses).sum()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients(dtype: torch.dtype) -> None:
    module = Loss(dtype)
    program = composites.export(module, (), train=True, ops=[], frontend="fx")
    results = program.run({"param:weight": module.weight.detach().numpy()})
    module().backward()
    assert module.weight.grad is not None
    gradient = torch.from_numpy(results["grad:weight"].copy())
    torch.testing.assert_close(gradient, module.weight.grad, rtol=1e-7, atol=1e-7)


def test_exponentials_in_f16_are_those_of_f32() -> None:
    """PyTorch's own are NaN (torch 2.15.0)."""
    x = random(3, 3, dtype=torch.float16)
    (actual,) = run(torch.matrix_exp, x)
    torch.testing.assert_close(actual, torch.matrix_exp(x.float()).half())


def test_programs_run_after_they_are_saved(tmp_path: Path) -> None:
    def every(x: Tensor) -> Any:
        return linalg.svdvals(x), linalg.solve(x, x), linalg.cholesky(positive(x))

    x = random(3, 3, dtype=torch.float32)
    program = composites.export(Calling(every), (x,), ops=[], frontend="fx")
    assert "lapack" not in program.mlir
    assert "tuple<" not in program.mlir
    program.save(tmp_path / "saved")
    outputs = composites.Program.load(tmp_path / "saved").run(x)
    for actual, expected in zip(outputs.values(), every(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(actual.copy()), expected, rtol=1e-4, atol=1e-4)


REFUSED: Mapping[str, tuple[Callable[[Tensor], Any], str | None, str]] = {
    "lstsq": (lambda x: linalg.lstsq(x, x, driver="gelsd")[0], None, "pass driver='gels'"),
    "without pivots": (
        lambda x: linalg.lu_factor(x, pivot=False),
        None,
        "aten::linalg_lu_factor_ex has a rule in JAX only with pivoting",
    ),
    "eigvals": (linalg.eigvals, None, "aten::linalg_eig has no rule in JAX"),
    "ldl": (linalg.ldl_factor, None, "aten::linalg_ldl_factor_ex has no rule in JAX"),
    "qr for IREE": (linalg.qr, "iree", r"custom_call @Qr, .* from aten::linalg_qr, at .*\.py"),
    "eigh for LiteRT": (linalg.eigh, "litert", "does not take stablehlo.custom_call @Eigh"),
    "cholesky for IREE": (linalg.cholesky, "iree", "does not take stablehlo.cholesky of f32"),
    "allclose": (lambda x: x * torch.allclose(x, x), None, "aten::allclose reads the values"),
}


def test_refusals() -> None:
    x = random(3, 3, dtype=torch.float32)
    for function, target, message in REFUSED.values():
        with pytest.raises((ExportError, RefusedOperationError), match=message):
            composites.export(Calling(function), (x,), ops=[], frontend="fx", target=target)
