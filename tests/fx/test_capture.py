"""A module may write, take views, make tensors, cast and print while it is recorded."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from composites_testing.modules import Calling

import composites
from composites.errors import ExportError


def agrees(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    """Check that a function gives PyTorch's numbers, and the same bits without composites."""
    module = Calling(function)
    expected = function(x.clone())
    actual = composites.export(module, (x,)).run(x)["out:0"]
    plain = composites.export(module, (x,), ops=[]).run(x)["out:0"]
    np.testing.assert_allclose(actual, expected.numpy(), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(plain, expected.numpy(), rtol=2e-6, atol=2e-6)
    assert str(actual.dtype) == str(expected.numpy().dtype)


def written_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.mul_(2)[1].add_(1)
    y[:, ::2] = 7
    y.view(-1)[3:5].fill_(-1)
    return y.t().contiguous()


def made_of_numbers(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[-1]
    scale = torch.tensor([2.0, 3.0], device=x.device).sum()
    ramp = torch.arange(n, device=x.device, dtype=x.dtype) + torch.zeros(n, device=x.device)
    return (
        x * ramp + scale + torch.eye(n, device=x.device)[0] + torch.linspace(0, 1, n).to(x.device)
    )


def cast(x: torch.Tensor) -> torch.Tensor:
    y = x.to(torch.bfloat16).float()
    y[0] = 1
    z = y.double().long()
    z += 1
    return z.to(torch.float32) / 3


def with_constants(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor(0.5) * torch.ones(x.shape[-1])


def outer_views(x: torch.Tensor) -> torch.Tensor:
    parts = x.chunk(2, dim=1)
    first, second = (part.transpose(0, 1) for part in parts)
    first = first.clone()
    first += second
    return torch.stack([first, second]).flatten(1)


def test_functions() -> None:
    functions = (written_in_place, made_of_numbers, cast, with_constants, outer_views)
    for function in functions:
        agrees(function, torch.linspace(-2, 2, 24).reshape(4, 6))


def test_printing_shows_the_shape(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(x: torch.Tensor) -> torch.Tensor:
        print(x)
        return x + 1

    composites.export(Calling(printed), (torch.ones(2, 3),))
    assert "size=(2, 3), dtype=torch.float32" in capsys.readouterr().out


def test_a_tensor_kept_from_another_export() -> None:
    kept: list[torch.Tensor] = []

    def keeps(x: torch.Tensor) -> torch.Tensor:
        kept.append(x * 2)
        return kept[0] + x

    composites.export(Calling(keeps), (torch.ones(2),))
    with pytest.raises(ExportError, match="keep no tensors"):
        composites.export(Calling(keeps), (torch.ones(2),))
    with pytest.raises(RuntimeError, match="is used after the export"):
        kept[0] + 1
    assert (torch.ones(2) + 1).tolist() == [2, 2]
