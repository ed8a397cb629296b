"""The platform of a device, as registries name it."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

from lowering.export.partitioning import platform_of


@pytest.mark.parametrize(
    ("version", "platform"), [("cuda 12080", "cuda"), ("rocm 60300", "rocm")], ids=str
)
def test_gpus_are_told_apart(version: str, platform: str) -> None:
    """By what jax tells of the client, since both platforms are `gpu` there."""
    client = SimpleNamespace(platform_version=version)
    assert platform_of(SimpleNamespace(platform="gpu", client=client)) == platform


def test_a_device_of_this_machine() -> None:
    assert platform_of(jax.devices("cpu")[0]) == "cpu"
