"""Losses of optax with numbers, arrays of numpy, and labels that PyTorch does not have: results and
errors are those without composites."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from composites_testing.jax_calls import bits, composite_names

import composites.jax

ENTRIES = (
    "mse_loss", "huber_loss", "cross_entropy_loss", "binary_cross_entropy_with_logits",
)  # fmt: skip
LOGITS = jax.random.normal(jax.random.key(0), (3, 4, 5))
LABELS = jax.random.randint(jax.random.key(1), (3, 4), 0, 5)
OF_NUMPY = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
NUMPY_F64 = OF_NUMPY.astype(np.float64)

cross_entropy = optax.softmax_cross_entropy_with_integer_labels
sigmoid = optax.sigmoid_binary_cross_entropy


@pytest.fixture(autouse=True)
def _all_off() -> Iterator[None]:
    yield
    composites.jax.disable()


LEFT_ALONE: dict[str, tuple[Callable[[], Any], str]] = {
    "squares of numpy": (lambda: optax.squared_error(OF_NUMPY, OF_NUMPY + 1), "of numpy"),
    "squares of numpy in f64": (lambda: optax.squared_error(NUMPY_F64, NUMPY_F64 + 1), "of numpy"),
    "Huber loss of numpy": (lambda: optax.huber_loss(OF_NUMPY, OF_NUMPY + 1), "of numpy"),
    "Huber loss of numpy in f64": (lambda: optax.huber_loss(NUMPY_F64, NUMPY_F64 + 1), "of numpy"),
    "sigmoid of numpy": (lambda: sigmoid(OF_NUMPY, OF_NUMPY), "of numpy"),
    "logits of numpy": (lambda: cross_entropy(NUMPY_F64, np.array([1, 2, 3])), "of numpy"),
    "a label": (lambda: cross_entropy(LOGITS[0, 0], 2), "no array of i32"),
    "a label of numpy": (lambda: cross_entropy(LOGITS[0, 0], np.int64(2)), "no array of i32"),
    "labels of a byte": (lambda: cross_entropy(LOGITS, LABELS.astype(jnp.int8)), "no array of i32"),
    "no classes": (lambda: cross_entropy(LOGITS[..., :0], LABELS), "there are no classes"),
    "no corner": (lambda: optax.huber_loss(LOGITS, LOGITS + 1, delta=np.nan), "is not a number"),
    "a corner at 0": (lambda: optax.huber_loss(LOGITS, LOGITS + 1, delta=0), "not above 0"),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str, caplog: pytest.LogCaptureFixture) -> None:
    call, reason = LEFT_ALONE[name]
    expected = bits((call(), jax.jit(call)()))
    with composites.jax.enabled(*ENTRIES), caplog.at_level(logging.DEBUG, "torch"):
        assert bits((call(), jax.jit(call)())) == expected
        assert not composite_names(jax.jit(call).lower().as_text())
        entries = composites.jax.stats().entries.values()
    assert any(reason in f.reason for entry in entries for f in entry.fallbacks)
    assert not caplog.records


def test_a_gradient_without_a_corner() -> None:
    def loss(x: Any) -> Any:
        return optax.huber_loss(x, 3 * x, delta=float("nan")).sum()

    expected = bits(jax.grad(loss)(LOGITS))
    with composites.jax.enabled(*ENTRIES):
        assert bits(jax.grad(loss)(LOGITS)) == expected


ERRORS: dict[str, Callable[[], Any]] = {
    "an axis that is no integer": lambda: cross_entropy(LOGITS, LABELS, -1.0),
    "an axis of numpy": lambda: cross_entropy(LOGITS, LABELS, np.int32(-1)),
    "logits in a list": lambda: cross_entropy([1.0, 2.0], jnp.array(1)),
    "labels in a list": lambda: cross_entropy(LOGITS[0], [1, 2, 3, 4]),
    "one label of many rows": lambda: cross_entropy(LOGITS[0], 1),
    "one logit": lambda: cross_entropy(LOGITS[0, 0, 0], LABELS[0, 0]),
    "no labels": lambda: sigmoid(LOGITS, None),
    "numbers in a list": lambda: sigmoid([1.0], [1.0]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_optax(name: str) -> None:
    call = ERRORS[name]
    with pytest.raises(Exception, match=r"\w") as expected:
        call()
    with composites.jax.enabled(*ENTRIES), pytest.raises(expected.type) as found:
        call()
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("label", [-1, -100, -200, -201, 200])
def test_negative_labels_count_from_the_last_class(label: int) -> None:
    logits, labels = jax.random.normal(jax.random.key(2), (2, 200)), jnp.array([label, 3])
    compiled = jax.jit(jax.value_and_grad(lambda x: jnp.nansum(cross_entropy(x, labels))))
    expected = bits(compiled(logits))
    with composites.jax.enabled(*ENTRIES):
        assert bits(compiled(logits)) == expected
        text = compiled.lower(logits).as_text()
    assert text.count("ignore_index = -2147483648 : i64") == len(composite_names(text)) > 0
