"""Attention of `jax.nn` and flax as `dot_product_attention`, also under `jax.vmap` and with cross
entropy: the same bits as without, and what the composites say."""

import inspect
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from composites_testing.caught import (
    Call,
    Function,
    all_with_and_without,
    assert_left_alone,
    assert_same_errors,
    backward,
    calls_in,
    gradients,
    normal,
    weighted,
    with_and_without,
)
from composites_testing.jax_calls import composite_names
from flax import nnx

import composites.jax
from lowering.frontends.jax.internals import KNOWS_SUMS
from lowering.stablehlo.run import enable_x64

NAME, LOSS_NAME = "dot_product_attention", "cross_entropy_loss"
ATTENTION, LOSS = f"ptxla.{NAME}", f"ptxla.{LOSS_NAME}"

attention = jax.nn.dot_product_attention


def loss(logits: Any, labels: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


def _operands(heads: int = 4, key_heads: int = 2) -> tuple[Any, Any, Any]:
    return normal(0, 2, 5, heads, 8), normal(1, 2, 6, key_heads, 8), normal(2, 2, 6, key_heads, 8)


GROUPED, ALIKE = _operands(), _operands(4, 4)
BIAS = normal(3, 1, 4, 5, 6)
MASK = jnp.asarray(np.asarray(normal(4, 2, 1, 5, 6)) > -1)
HIDDEN = normal(5, 2, 7, 16)


@dataclass(frozen=True)
class Program:
    """A call of attention and its arrays, with the entry's own call for the same."""

    run: Function
    arrays: tuple[Any, ...]
    entry: Function


def _own(*arrays: Any, **options: Any) -> Any:
    return composites.jax.entry(NAME)(*arrays, **options)


def _own_with_mask(q: Any, k: Any, v: Any, mask: Any, **options: Any) -> Any:
    return _own(q, k, v, mask, **options)


PROGRAMS = {
    "grouped": Program(attention, GROUPED, _own),
    "causal": Program(
        partial(attention, is_causal=True, scale=0.3),
        GROUPED,
        partial(_own, is_causal=True, scale=0.3),
    ),
    "bias and mask": Program(
        attention, (*GROUPED, BIAS, MASK), lambda q, k, v, b, m: _own(q, k, v, m, b)
    ),
}


@cache
def _more_programs() -> dict[str, Program]:
    # What newer versions of flax.nnx have.
    parameters = inspect.signature(nnx.dot_product_attention).parameters
    causal: dict[str, Any] = {"is_causal": True} if "is_causal" in parameters else {}

    def masked(run: Function, **options: Any) -> Function:
        return lambda q, k, v, m: run(q, k, v, mask=m, **options)

    nothing = jnp.zeros((1, 1, 5, 6), bool)
    return {
        "mask": Program(masked(attention), (*GROUPED, MASK), _own_with_mask),
        "bias": Program(
            partial(attention, is_causal=True), (*GROUPED, BIAS), partial(_own, is_causal=True)
        ),
        "all masked": Program(masked(attention), (*GROUPED, nothing), _own_with_mask),
        "without a batch": Program(attention, tuple(x[0] for x in GROUPED), _own),
        "linen": Program(
            masked(nn.dot_product_attention),
            (*ALIKE, MASK.astype(jnp.float32)),
            lambda q, k, v, m: _own(q, k, v, m != 0),
        ),
        "linen with a bias": Program(
            nn.dot_product_attention,
            (*ALIKE, BIAS, MASK),
            lambda q, k, v, b, m: _own(q, k, v, m, b),
        ),
        "linen, values of another size": Program(
            nn.dot_product_attention, (*ALIKE[:2], ALIKE[2][..., :3]), _own
        ),
        "linen, two batches": Program(
            nn.dot_product_attention, tuple(jnp.stack([x, 2 * x]) for x in ALIKE), _own
        ),
        "nnx": Program(
            masked(nnx.dot_product_attention, **causal),
            (*ALIKE, MASK),
            partial(_own_with_mask, **causal),
        ),
        "nnx, evaluated": Program(
            partial(nnx.dot_product_attention, dropout_rate=0.5, deterministic=True), ALIKE, _own
        ),
    }


@pytest.fixture(params=["few", pytest.param("all", marks=pytest.mark.slow)])
def programs(request: pytest.FixtureRequest) -> dict[str, Program]:
    return PROGRAMS if request.param == "few" else _more_programs()


def names(text: str) -> Counter[str]:
    return Counter(composite_names(text))


def caught(program: Function, *arrays: Any, entries: tuple[str, ...] = (NAME,)) -> Counter[str]:
    """The composites of a program, whose bits are those without."""
    return names(with_and_without(program, entries, *arrays))


BOTH = dict.fromkeys([ATTENTION, *backward(NAME)], 1)
"""A forward and its backward."""


def test_bits(programs: dict[str, Program]) -> None:
    calls: dict[str, Call] = {n: (program.run, program.arrays) for n, program in programs.items()}
    assert names(all_with_and_without(calls, NAME)) == {ATTENTION: len(calls)}
    calls = {n: (gradients(program.run), program.arrays) for n, program in programs.items()}
    assert names(all_with_and_without(calls, NAME)) == dict.fromkeys(BOTH, len(calls))


@pytest.mark.slow
def test_programs_mean_the_entry(programs: dict[str, Program]) -> None:
    """The function computes what the entry computes in PyTorch programs, with its gradients."""

    def results(use_entries: bool) -> Any:
        numbers = {}
        for name, program in programs.items():
            run = program.entry if use_entries else program.run
            numbers[name] = run(*program.arrays), gradients(run)(*program.arrays)
        return numbers

    ours, theirs = jax.jit(results, static_argnums=0)(True), jax.jit(results, static_argnums=0)(0)
    for name, result in ours.items():
        close = partial(np.testing.assert_allclose, rtol=1e-5, atol=2e-6, err_msg=name)
        jax.tree.map(close, result, theirs[name])


def test_what_the_composites_say() -> None:
    def run(q: Any, k: Any, v: Any, b: Any, m: Any) -> Any:
        return gradients(partial(attention, is_causal=True, scale=0.5))(q, k, v, b, m)

    with composites.jax.enabled(NAME):
        calls = calls_in(jax.jit(run).lower(*GROUPED, BIAS, MASK).as_text())
        absent = jax.jit(attention).lower(*GROUPED).as_text()
    q, k, m, b = "2x5x4x8xf32", "2x6x2x8xf32", "2x1x5x6xi1", "1x4x5x6xf32"
    assert all("is_causal = true" in c and "scale = 5.000000e-01 : f32" in c for c in calls)
    operands = ", ".join(f"tensor<{type_}>" for type_ in (q, k, k, m, b))
    assert f"({operands}) -> " in calls[0]
    if KNOWS_SUMS:
        saved = f"{operands}, tensor<{q}>, tensor<2x5x4xf32>"  # the result, and the log-sum-exp
        assert f"(tensor<{q}>, {saved}) -> " in calls[1]
        assert "output_mask = dense<[true, true, true, false, true]>" in calls[1]
    assert "is_causal = false}" in absent
    assert "scale" not in absent.partition("stablehlo.composite")[2].partition("}")[0]


def test_an_array_that_is_given_twice() -> None:
    """JAX adds up the gradients of its uses in an order of its own."""
    x = normal(0, 2, 5, 4, 8)
    assert caught(gradients(lambda x: attention(x, x, x)), x) == {ATTENTION: 1}
    many = jnp.stack([x, 2 * x])
    assert caught(gradients(lambda x: jax.vmap(attention)(x, x, x)), many) == {}
    with composites.jax.enabled(NAME):
        text = jax.jit(lambda x: attention(x, x, x)).lower(x).as_text()
    inner = text.partition(f"func.func private @{ATTENTION}")[2]
    assert all(f"%arg{n}" in inner.partition("{")[2] for n in range(3))


@pytest.mark.slow
def test_modules_of_flax() -> None:
    """Softmax, and attention of jax.nn in that of flax, are part of the decomposition."""
    module = nn.MultiHeadDotProductAttention(num_heads=2)
    variables = module.init(jax.random.key(1), HIDDEN)
    linen = partial(module.apply, variables, mask=nn.make_causal_mask(HIDDEN[..., 0]))
    made = nnx.MultiHeadAttention(num_heads=2, in_features=16, decode=False, rngs=nnx.Rngs(0))
    graph, state = nnx.split(made)
    entries = (NAME, "softmax")
    for run in (linen, lambda x: nnx.merge(graph, state)(x)):
        assert caught(gradients(run), HIDDEN, entries=entries) == BOTH
    keeping = partial(module.apply, variables, sow_weights=True, mutable=["intermediates"])
    assert caught(keeping, HIDDEN, entries=entries) == {"ptxla.softmax": 1}


# ---- what is left alone ----


def test_what_is_left_alone() -> None:
    def linen(**options: Any) -> Function:
        return partial(nn.dot_product_attention, **options)

    lengths, key = jnp.asarray([3, 2], jnp.int32), jax.random.key(7)
    programs: list[tuple[str, Function]] = [
        ("key_value_seq_lengths is set", partial(attention, key_value_seq_lengths=lengths)),
        ("query_seq_lengths is set", partial(attention, query_seq_lengths=lengths)),
        ("local_window_size is set", partial(attention, is_causal=True, local_window_size=2)),
        ("scale is an array", lambda q, k, v: attention(q, k, v, scale=jnp.abs(q).max())),
        (
            "not arrays of one floating-point type",
            lambda q, k, v: nn.dot_product_attention(q, k.astype(jnp.bfloat16), v),
        ),
        ("the weights have dropout", linen(dropout_rng=key, dropout_rate=0.5)),
        (
            "the weights have dropout",
            partial(nnx.dot_product_attention, dropout_rng=key, dropout_rate=0.5),
        ),
        ("precision is set", linen(precision="highest")),
        ("another type than the computation", linen(dtype=np.float16)),
        ("einsum_dot_general is set", linen(einsum_dot_general=jax.lax.dot_general)),
        (
            "the bias is not an array of floats",
            lambda q, k, v: attention(q, k, v, MASK.astype(jnp.int32)),
        ),
    ]
    if "return_residual" in inspect.signature(attention).parameters:  # jax 0.7.1 has none
        programs.append(("return_residual is set", partial(attention, return_residual=True)))
    numbered = enumerate(programs)
    assert_left_alone({f"{n}: {why}": (NAME, (run, ALIKE), why) for n, (why, run) in numbered})
    with enable_x64():
        wide = tuple(x.astype(jnp.float64) for x in GROUPED)
        why = "JAX computes the softmax of f64 in f32"
        assert_left_alone({"f64": (NAME, (attention, wide), why)})


def test_mistakes_are_those_of_jax() -> None:
    calls: dict[str, Function] = {
        "implementation": partial(attention, *GROUPED, implementation="other"),
        "mask": partial(attention, *GROUPED, mask=MASK.astype(jnp.float32)),
        "bias": partial(attention, *GROUPED, bias=BIAS[..., :5]),
    }
    assert_same_errors(calls, NAME)


# ---- under vmap: one composite for all calls ----


LOGITS = normal(0, 4, 5, 7)
LABELS = jnp.asarray(np.random.default_rng(1).integers(0, 7, (4, 5)), jnp.int32)
QUERY, KEY, VALUE = normal(2, 3, 2, 5, 4, 8), normal(3, 3, 2, 6, 2, 8), normal(4, 3, 2, 6, 2, 8)
BIASES = normal(5, 3, 2, 4, 5, 6)
MASKS = jnp.asarray(np.asarray(BIASES) > -1)
OF_ONE = (QUERY[:, 0], KEY[:, 0], VALUE[:, 0])
"""Programs without a batch, which compute one example."""


@dataclass(frozen=True)
class Mapped:
    """A function under `jax.vmap` and its arrays."""

    function: Function
    arrays: tuple[Any, ...]
    operands: str
    """Types of the composite's operands."""
    axes: Any = 0

    @property
    def entry(self) -> str:
        return LOSS_NAME if self.function is loss else NAME


def _with_mask(q: Any, k: Any, v: Any, m: Any) -> Any:
    return attention(q, k, v, mask=m)


ROWS = "tensor<20x7xf32>, tensor<20xi32>"
ALL = "tensor<6x5x4x8xf32>, tensor<6x6x2x8xf32>, tensor<6x6x2x8xf32>"
EACH = "tensor<3x5x4x8xf32>, tensor<3x6x2x8xf32>, tensor<3x6x2x8xf32>"
MAPPED = {
    "loss": Mapped(loss, (LOGITS, LABELS), ROWS),
    "loss of one row": Mapped(loss, (LOGITS[:, 0], LABELS[:, 0]), "tensor<4x7xf32>, tensor<4xi32>"),
    "labels for all": Mapped(loss, (LOGITS, LABELS[0]), ROWS, (0, None)),
    "another axis": Mapped(loss, (LOGITS, LABELS), ROWS, (1, 1)),
    "attention": Mapped(attention, (QUERY, KEY, VALUE), ALL),
    "attention of one example": Mapped(partial(attention, is_causal=True), OF_ONE, EACH),
    "mask for all": Mapped(
        _with_mask, (QUERY, KEY, VALUE, MASKS[0]), f"{ALL}, tensor<6x4x5x6xi1>", (0, 0, 0, None)
    ),
    "bias and mask": Mapped(
        lambda q, k, v, b: attention(q, k, v, b, b > -1),
        (QUERY, KEY, VALUE, BIASES),
        f"{ALL}, tensor<6x4x5x6xi1>, tensor<6x4x5x6xf32>",
    ),
    "mask of one example": Mapped(
        _with_mask, (*OF_ONE, MASKS[:, 0]), f"{EACH}, tensor<3x4x5x6xi1>"
    ),
}


def _caught_of_all(change: Function) -> tuple[str, Counter[str]]:
    """A program of all functions under `jax.vmap`, and its composites."""
    calls: dict[str, Call] = {name: (change(case), case.arrays) for name, case in MAPPED.items()}
    text = all_with_and_without(calls, NAME, LOSS_NAME)
    return text, names(text)


@pytest.mark.slow
def test_vmap() -> None:
    text, counts = _caught_of_all(lambda case: jax.vmap(case.function, case.axes))
    assert counts == Counter(f"ptxla.{case.entry}" for case in MAPPED.values())
    assert [name for name, case in MAPPED.items() if f": ({case.operands}) -> " not in text] == []


@pytest.mark.slow
def test_gradients_under_vmap() -> None:
    """Gradients of each call are JAX's operations, with the same bits."""
    _, counts = _caught_of_all(lambda case: gradients(jax.vmap(case.function, case.axes)))
    right = [n for case in MAPPED.values() for n in (f"ptxla.{case.entry}", *backward(case.entry))]
    assert counts == Counter(right)

    def mapped_gradients(case: Mapped) -> Function:
        return jax.vmap(jax.grad(partial(weighted, case.function)), case.axes)

    assert _caught_of_all(mapped_gradients)[1] == {}


@pytest.mark.slow
def test_gradient_of_an_input_with_other_uses() -> None:
    """JAX adds up gradients one by one, in an order that differs between its releases. A composite
    stays only where its gradient is the first one, so the bits are the same in any place."""
    calls: dict[str, Call] = {}
    for index in range(3):
        uses = [lambda logits: jnp.sin(logits).sum(-1), lambda x: jax.nn.logsumexp(x, -1)]
        uses.insert(index, lambda logits: jax.vmap(loss)(logits, LABELS))
        program = jax.grad(lambda logits, uses=uses: sum(use(logits) for use in uses).sum())
        calls[f"index {index}"] = program, (LOGITS,)
    text = all_with_and_without(calls, LOSS_NAME)
    assert set(composite_names(text)) <= {LOSS, f"{LOSS}_backward"}


@pytest.mark.slow
def test_what_one_composite_cannot_be() -> None:
    """Keys for all calls, a bias for the batch of each call, and calls of calls are left alone."""
    shared = gradients(jax.vmap(attention, (0, None, None)))
    assert caught(shared, QUERY, KEY[0], VALUE[0]) == {}
    assert caught(jax.vmap(attention), QUERY, KEY, VALUE, BIASES[:, :1]) == {}
    many = [array[:, :, None] for array in (QUERY, KEY, VALUE)]
    assert caught(jax.vmap(jax.vmap(attention)), *many) == {}


@pytest.mark.slow
def test_transformations_of_many() -> None:
    def many(logits: Any) -> Any:
        return jax.vmap(loss)(logits, LABELS)

    def scanned(logits: Any) -> Any:
        def step(total: Any, factor: Any) -> tuple[Any, None]:
            return total + many(logits * factor).sum(), None

        return jax.lax.scan(step, jnp.zeros(()), jnp.arange(3.0))[0]

    assert caught(scanned, LOGITS, entries=(LOSS_NAME,)) == {LOSS: 1}
    tangent = jnp.ones_like(LOGITS)
    pushed = lambda x: jax.jvp(many, (x,), (tangent,))  # noqa: E731
    assert LOSS in caught(pushed, LOGITS, entries=(LOSS_NAME,))
    total = lambda x: many(x).sum()  # noqa: E731
    twice = jax.grad(lambda x: jnp.square(jax.grad(total)(x)).sum())
    kept = jax.grad(jax.checkpoint(total))
    expected = jax.jit(lambda x: (twice(x), kept(x)))(LOGITS)
    with composites.jax.enabled(LOSS_NAME):
        compiled = [jax.jit(function).lower(LOGITS) for function in (twice, kept)]
    for program, right in zip(compiled, expected, strict=True):
        names = composite_names(program.as_text())
        assert names == [LOSS, f"{LOSS}_backward"] if KNOWS_SUMS else set(names) <= {LOSS}
        np.testing.assert_allclose(program.compile()(LOGITS), right, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", ["softmax", NAME])
def test_symbolic_sizes(name: str, mapped: bool) -> None:
    """JAX maps the softmax of its attention over the batch. JAX can have no composite there."""
    program = jax.grad(lambda x: jnp.square(attention(x, 2 * x, x + 1)).sum())
    program = jax.vmap(program) if mapped else program
    values = QUERY if mapped else QUERY[0]
    (batch,) = jax.export.symbolic_shape("batch")
    type_ = jax.ShapeDtypeStruct((batch, *values.shape[1:]), values.dtype)
    before = jax.export.export(jax.jit(program))(type_)
    with composites.jax.enabled(name):
        exported = jax.export.export(jax.jit(program))(type_)
    assert "stablehlo.composite" not in exported.mlir_module()
    np.testing.assert_allclose(exported.call(values), before.call(values), rtol=1e-5, atol=1e-5)
