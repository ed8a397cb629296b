"""Whole programs of flax and optax, and the environment variable."""

import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import optax
import pytest
from composites_testing.caught import backward
from composites_testing.jax_calls import bits, composite_names
from composites_testing.processes import run, run_python

import composites.jax

ROOT = Path(__file__).resolve().parents[2]

VOCABULARY, WIDTH = 32, 16


def transformer() -> Any:
    class Transformer(nn.Module):
        @nn.compact
        def __call__(self, tokens: Any) -> Any:
            x = nn.Embed(VOCABULARY, WIDTH)(tokens)
            x = x + nn.MultiHeadDotProductAttention(num_heads=2)(nn.LayerNorm()(x))
            x = x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(4 * WIDTH)(nn.RMSNorm()(x))))
            return nn.Dense(VOCABULARY)(nn.LayerNorm()(x))

    return Transformer()


@pytest.mark.slow
def test_training_of_a_transformer() -> None:
    """Losses, parameters and the optimizer's state after three steps have the same bits."""
    model, optimizer = transformer(), optax.adamw(1e-3)
    tokens = jax.random.randint(jax.random.key(1), (2, 8), 0, VOCABULARY)
    parameters = model.init(jax.random.key(0), tokens)

    def loss(parameters: Any) -> Any:
        logits = model.apply(parameters, tokens)[:, :-1]
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    @jax.jit
    def step(parameters: Any, state: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    def train() -> list[Any]:
        state: Any = (parameters, optimizer.init(parameters))
        seen = []
        for _ in range(3):
            *state, value = step(*state)
            seen.append(value)
        return bits((state, seen))

    before = train()
    with composites.jax.enabled("all"):
        assert train() == before
        text = step.lower(parameters, optimizer.init(parameters)).as_text()
    assert train() == before
    counts = Counter(composite_names(text))
    del counts["ptxla.embedding"], counts["ptxla.embedding_dense_backward"]
    forward = ("gelu", "rms_norm", "dot_product_attention", "cross_entropy_loss")
    # Of the last layer norm, whose input has one use.
    gradients = ("gelu", "dot_product_attention", "cross_entropy_loss", "layer_norm")
    # Softmax is part of attention.
    assert counts == {
        **{f"ptxla.{name}": 1 for name in forward},
        **{name: 1 for entry in gradients for name in backward(entry)},
        "ptxla.layer_norm": 2,
        "ptxla.scale_by_adam": len(jax.tree.leaves(parameters)),
    }


TRAINING = """
import jax
import jax.numpy as jnp
from jax.nn import silu

key = jax.random.key(0)

@jax.jit
def step(x):
    return jax.grad(lambda x: (silu(2 * x) + jax.nn.softmax(x, axis=(0, 1))).sum())(x)

step(jnp.ones((2, 3)))
"""


@pytest.fixture
def plugin(tmp_path: Path) -> dict[str, str]:
    """An environment in which JAX finds the plugin, however this project is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    group = "jax_plugins"
    lines = [f"{name} = {target}" for name, target in project["entry-points"][group].items()]
    package = tmp_path / "plugin-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (package / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
    return {"PYTHONPATH": f"{tmp_path}:{ROOT}", "JAX_PLATFORMS": "cpu"}


@pytest.mark.process
def test_environment_variable(plugin: dict[str, str]) -> None:
    script = TRAINING + "print(step.lower(jnp.ones((2, 3))).as_text())\n"
    done = run_python(script, XLA_COMPOSITE_OP="silu", XLA_COMPOSITE_LOG="info", **plugin)
    assert "ptxla.silu_backward" in done.succeeded().stdout
    assert done.stderr.count("active in JAX programs: ptxla.silu@1") == 1
    assert "ptxla.softmax" not in done.stdout


FAILING = {
    "gellu": ("", "AllowlistError: XLA_COMPOSITE_OP=gellu: there is no composite 'gellu'; did you"),
    "silu": (
        "import sys\nsys.modules['torch'] = None\n",
        "MissingPackageError: XLA_COMPOSITE_OP=silu: composites of JAX programs",
    ),
}
"""The entries of programs that stop, the programs' first lines, and their messages."""


@pytest.mark.process
def test_a_misspelled_name_and_a_missing_pytorch_stop_the_program(plugin: dict[str, str]) -> None:
    for names, (begin, message) in FAILING.items():
        done = run_python(f"{begin}{TRAINING}print('went on')", XLA_COMPOSITE_OP=names, **plugin)
        assert done.code != 0
        assert "went on" not in done.stdout
        assert message in done.stderr


def test_nothing_is_imported_without_the_variable(plugin: dict[str, str]) -> None:
    script = TRAINING + (
        "import sys\n"
        "ours = ('torch', 'lowering', 'composites')\n"
        "print(*sorted(name for name in sys.modules if name.split('.')[0] in ours))"
    )
    done = run_python(script, **plugin)
    assert done.stdout.split() == [
        "composites", "composites.settings", "lowering", "lowering.jax_programs",
        "lowering.jax_programs.plugin",
    ]  # fmt: skip


@pytest.mark.process
def test_composites_run(plugin: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "train_jax.py"
    script.write_text(TRAINING)
    command = (sys.executable, "-m", "composites", "run", str(script))
    done = run(*command, COLUMNS="160", XLA_COMPOSITE_OP="gelu,softmax,silu", **plugin)
    rows = [line.split() for line in done.succeeded().stdout.splitlines()]
    shown = {row[1]: row for row in rows if len(row) > 5 and row[1].startswith("ptxla.")}
    assert "ptxla.silu_backward" in shown
    assert "ptxla.gelu" not in shown
    assert "axis is not one integer" in done.stdout
    assert "train_jax.py:10" in done.stdout
    assert "on, and caught no call: ptxla.gelu" in done.stdout
