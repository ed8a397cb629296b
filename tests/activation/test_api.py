"""enable, disable, enabled and active: what is on, and that off is stock again."""

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.names import GELU, SILU

import composites

pytestmark = pytest.mark.usefixtures("nothing_on")


def text() -> str:
    x = torch.ones(3, 4, device="xla", requires_grad=True)
    torch_xla.sync()
    F.silu(F.gelu(x)).sum().backward()
    return xm.get_stablehlo([x.grad])


def test_enable_adds_and_disable_takes_away() -> None:
    assert composites.active() == ()
    composites.enable("gelu")
    composites.enable("silu")
    assert set(composites.active()) == GELU | SILU
    composites.disable("gelu")
    assert set(composites.active()) == SILU
    composites.disable()
    assert composites.active() == ()


def test_enabled_restores_what_was_on() -> None:
    composites.enable("gelu")
    with composites.enabled("silu"):
        assert set(composites.active()) == GELU | SILU
        with composites.enabled("gelu"):
            assert set(composites.active()) == GELU | SILU
        assert set(composites.active()) == GELU | SILU
    assert set(composites.active()) == GELU
    with pytest.raises(ZeroDivisionError), composites.enabled("silu"):
        raise ZeroDivisionError
    assert set(composites.active()) == GELU


def test_a_wrong_name_changes_nothing() -> None:
    composites.enable("gelu")
    for change in (composites.enable, composites.disable):
        with pytest.raises(composites.AllowlistError, match="did you mean 'silu'"):
            change("gelu", "siluu")
    assert set(composites.active()) == GELU


def test_off_is_stock_byte_for_byte() -> None:
    stock = text()
    with composites.enabled("all"):
        on = text()
    assert on.count("stablehlo.composite ") == 3  # silu is not needed for its own gradient
    assert text() == stock
    with composites.enabled("gelu"):
        assert "ptxla.silu" not in text()
    assert text() == stock


def test_a_misspelled_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'enalbe'"):
        composites.enalbe  # noqa: B018


def test_a_function_that_a_release_does_not_have(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer transformers does not stop programs that turn all on; see also `acme.moved` in
    tests/torch_xla/test_functions.py, whose vendor can mend it."""
    from transformers.models.llama import modeling_llama

    monkeypatch.delattr(modeling_llama, "apply_rotary_pos_emb")
    composites.enable("all")
    assert "ptxla.gelu" in composites.active()
    (message,) = [m for m in caplog.messages if "modeling_llama:apply_rotary_pos_emb" in m]
    assert "has no apply_rotary_pos_emb in this release of transformers; turn" in message
    name = message.partition(" does not catch ")[0].removeprefix("ptxla.")
    assert message.endswith(f"turn the entry off with -{name} to silence this warning")
    composites.disable()
    caplog.clear()
    composites.enable("all", f"-{name}")
    assert not any("apply_rotary_pos_emb" in message for message in caplog.messages)
