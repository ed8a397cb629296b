"""Fixtures of this folder: entries as subjects, which never stay on after a test."""

from collections.abc import Iterator

import pytest
from composites_testing.jax_subjects import SUBJECTS, Subject

import composites.jax

try:
    import torch_xla
except ModuleNotFoundError:  # JAX programs do without
    pass
else:
    torch_xla.device()  # before PyTorch's first backward, which counts the devices that there are

SOFTMAX = SUBJECTS[1]


@pytest.fixture(
    params=[s if s is SOFTMAX else pytest.param(s, marks=pytest.mark.slow) for s in SUBJECTS],
    ids=lambda subject: subject.name,
)
def subject(request: pytest.FixtureRequest) -> Subject:
    return request.param


@pytest.fixture(autouse=True)
def all_off() -> Iterator[None]:
    """A test leaves no entry on."""
    yield
    composites.jax.disable()
