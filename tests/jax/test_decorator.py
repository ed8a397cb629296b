"""`@composites.jax.composite`: functions of one's own under JAX's transformations, the form that
the PyTorch decorator gives, and what is refused."""

import gc
import pickle
import warnings
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from composites_testing.jax_calls import array_of, composite_names, signatures
from composites_testing.processes import run_python
from jax import export
from jax.sharding import Mesh, PartitionSpec

import composites
import composites.jax
from composites.errors import CompositesWarning
from lowering import activation
from lowering.locking import recorded
from lowering.sample_calls import ExampleCall
from lowering.stablehlo.run import enable_x64

X = jnp.linspace(-2.0, 2.0, 24).reshape(4, 6)


def plain_swish(x: jax.Array, *, beta: Any = 1.0) -> jax.Array:
    """Swish."""
    return x * jax.nn.sigmoid(beta * x)


decorator: Any = composites.jax.composite
swish = composites.jax.composite("acme.swish", version=2)(plain_swish)


@composites.jax.composite("acme.norm")
def norm(x: jax.Array, weight: jax.Array | None = None, *, axis: int = -1) -> jax.Array:
    scaled = x * jax.lax.rsqrt(jnp.square(x).mean(axis, keepdims=True) + 1e-6)
    return scaled if weight is None else scaled * weight


Function = Callable[..., Any]


def names(function: Callable[..., Any], *arrays: Any) -> Counter[str]:
    return Counter(composite_names(jax.jit(function).lower(*arrays).as_text()))


def loss(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: (function(x) ** 2).sum()


# ---- one composite, in all transformations ----


def test_a_call_is_one_composite() -> None:
    for beta in (2.0, np.float32(2.0)):
        text = jax.jit(lambda x, beta=beta: swish(x, beta=beta)).lower(X).as_text()
        assert text.count('stablehlo.composite "acme.swish" %arg0') == 1
        assert "{beta = 2.000000e+00 : f32}" in text
        assert "version = 2 : i32" in text
    np.testing.assert_allclose(swish(X, beta=2.0), plain_swish(X, beta=2.0), rtol=1e-6)
    text = jax.jit(lambda x: swish(swish(x, beta=1), beta=1.0)).lower(X).as_text()
    assert text.count("func.func private") == 2  # with an i64 and an f32


def test_it_stays_the_function_it_was() -> None:
    assert (swish.__name__, swish.__doc__) == ("plain_swish", "Swish.")
    assert pickle.loads(pickle.dumps(norm)) is norm
    by_keyword = jax.jit(norm, static_argnames="axis")
    assert names(lambda x: by_keyword(weight=x, x=x, axis=0), X) == {"acme.norm": 1}


def test_an_effect_happens_for_each_call_under_vmap() -> None:
    seen: list[float] = []

    @composites.jax.composite("acme.watched")
    def watched(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda total: seen.append(float(total)), x.sum())
        return 2 * x

    for run in (jax.vmap(watched), jax.jit(jax.vmap(watched)), jax.vmap(jax.grad(loss(watched)))):
        seen.clear()
        jax.block_until_ready(run(jnp.eye(2, 3) * jnp.arange(1.0, 4.0)))
        jax.effects_barrier()
        assert set(seen) == {1.0, 2.0}


def test_a_gradient_of_zero_in_shard_map() -> None:
    two = decorator("acme.two")(lambda x, y: (x * 2, y * 3))

    def gradient(x: Any) -> Any:
        return jax.grad(lambda y: two(x, y)[0].sum())(x)

    mesh, spec = Mesh(np.array(jax.devices()[:1]), ("d",)), PartitionSpec("d")
    assert (jax.shard_map(gradient, mesh=mesh, in_specs=spec, out_specs=spec)(X) == 0).all()


def test_exports_for_several_platforms() -> None:
    @composites.jax.composite("acme.by_platform")
    def by_platform(x: jax.Array) -> jax.Array:
        return jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)

    gradient = jax.grad(loss(lambda x: swish(swish(x))))
    program = jax.jit(lambda x: gradient(x) + by_platform(x))
    with pytest.warns(CompositesWarning, match="acme.by_platform is not a composite in this"):
        exported = export.export(program, platforms=["cpu", "cuda"])(X)
    text = exported.mlir_module()
    assert Counter(composite_names(text)) == {"acme.swish": 2, "acme.swish_backward": 2}
    assert text.count("func.func private") == 2
    again = export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(X), program(X))


@pytest.mark.slow
def test_symbolic_sizes_leave_the_decomposition() -> None:
    (batch,) = export.symbolic_shape("b")
    for size, x in ((batch, X), (2 * batch, np.concatenate([X, X]))):
        with pytest.warns(CompositesWarning, match="acme.swish is not a composite in this module"):
            exported = export.export(jax.jit(swish))(jax.ShapeDtypeStruct((size, 6), jnp.float32))
        assert "stablehlo.composite" not in exported.mlir_module()
        np.testing.assert_allclose(exported.call(np.asarray(x)), plain_swish(x), rtol=1e-6)
    gradient = jax.jit(jax.grad(lambda x: composites.jax.rms_norm(x, [6]).sum()))
    with pytest.warns(CompositesWarning, match="ptxla.rms_norm is not a composite in this module"):
        exported = export.export(gradient)(jax.ShapeDtypeStruct((batch, 6), jnp.float32))
    np.testing.assert_allclose(exported.call(X), gradient(X), rtol=1e-6)


SCALE = 1.0


def test_what_a_function_reads_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    @composites.jax.composite("acme.scaled")
    def scaled(x: jax.Array) -> jax.Array:
        return x * SCALE

    before = jax.vjp(scaled, X)[1]
    for value in (1.0, 2.0, 1.0):
        monkeypatch.setitem(globals(), "SCALE", value)
        gradient = jax.grad(loss(scaled))(X)
        for result in (scaled(X), jax.jit(lambda x: scaled(x))(X), jax.vmap(scaled)(X)):
            np.testing.assert_array_equal(result, X * value)
        np.testing.assert_array_equal(gradient, 2 * X * value**2)
        np.testing.assert_array_equal(before(X)[0], X)
    numbers = iter((3.0, 4.0))
    drawing = composites.jax.composite("acme.drawing")(lambda x: x * next(numbers))
    assert [float(drawing(X)[0, 0]) for _ in range(2)] == [-6.0, -8.0]
    (fallback,) = composites.jax.stats().entries["acme.drawing"].fallbacks
    assert fallback.reason.startswith("it reads numbers, a tuple_iterator, which is not compared")


def test_composites_inside_stay_in_the_decomposition() -> None:
    outer = decorator("acme.outer")(lambda x: jax.nn.silu(swish(x)))
    before = {"acme.outer": 1, "acme.swish": 1}
    assert names(outer, X) == before
    with composites.jax.enabled("silu"):
        assert names(outer, X) == {**before, "ptxla.silu": 1}
        assert names(jax.grad(lambda x: outer(x).sum()), X)["ptxla.silu_backward"] == 1
    assert names(outer, X) == before


def test_a_derivative_of_ones_own_is_kept() -> None:
    @jax.custom_vjp
    def doubled(x: jax.Array) -> jax.Array:
        return 2 * x

    doubled.defvjp(lambda x: (doubled(x), None), lambda _, grad: (100 * grad,))
    composed = composites.jax.composite("acme.doubled")(doubled)
    gradient = jax.grad(lambda x: composed(x).sum())
    assert names(gradient, X)["acme.doubled_backward"] == 1
    assert (gradient(X) == 100).all()


def test_calls_are_counted() -> None:
    """Calls with NaN as an attribute count as equal calls."""
    counted = decorator("acme.counted")(lambda x: x + 1)
    jax.jit(lambda x: counted(counted(x))).lower(X)
    entry = composites.jax.stats().entries["acme.counted"]
    assert (entry.on, entry.calls, entry.cache_hits) == (True, 2, 1)
    with_nan = decorator("acme.with_nan")(lambda x, *, scale: scale * x)
    for _ in range(3):
        with_nan(X, scale=float("nan"))
    assert composites.jax.stats().entries["acme.with_nan"].cache_hits == 2


def test_what_ran_outside_of_jit_ends_with_the_function() -> None:
    def short_lived(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    composed = composites.jax.composite("acme.short_lived")(short_lived)
    composed(X)
    jax.grad(loss(composed))(X)
    function = weakref.ref(short_lived)
    del short_lived, composed
    jax.clear_caches()
    gc.collect()
    assert function() is None


class Shifts:
    @staticmethod
    @composites.jax.composite("acme.inner")
    def inner(x: jax.Array) -> jax.Array:
        return x + 1

    @composites.jax.composite("acme.around")
    @staticmethod
    def around(x: jax.Array) -> jax.Array:
        return x + 2


def test_static_methods() -> None:
    assert names(lambda x: Shifts.inner(Shifts().around(x)), X) == {
        "acme.inner": 1, "acme.around": 1,
    }  # fmt: skip


# ---- the form that the PyTorch decorator gives ----


@dataclass(frozen=True)
class Both:
    """A function, for tensors and for arrays."""

    torch: Callable[..., Any]
    jax: Callable[..., Any]
    options: dict[str, Any]
    arguments: dict[str, Any]
    keyword_only: tuple[str, ...] = ()
    leaves: Sequence[int | None] = (0, None, 1)
    """The number of operands that have a gradient."""


def _torch_swiglu(
    gate: torch.Tensor, up: torch.Tensor, limit: float = 7.0, *, name: str, sizes: tuple[int, ...]
) -> torch.Tensor:
    return torch.nn.functional.silu(gate.clamp(max=limit)) * up


def _jax_swiglu(
    gate: jax.Array, up: jax.Array, limit: float = 7.0, *, name: str, sizes: tuple[int, ...]
) -> jax.Array:
    return jax.nn.silu(jnp.minimum(gate, limit)) * up


def _torch_tail(xs: list[torch.Tensor], bias: torch.Tensor | None, flag: bool) -> Any:
    total = xs[0] + xs[1] * 2
    return (total if bias is None else total + bias), torch.exp(xs[1])


def _jax_tail(xs: list[jax.Array], bias: jax.Array | None, flag: bool) -> Any:
    total = xs[0] + xs[1] * 2
    return (total if bias is None else total + bias), jnp.exp(xs[1])


A, B = torch.arange(6.0).reshape(2, 3), torch.linspace(0, 1, 6).reshape(2, 3)
SWIGLU = {"gate": A, "up": B, "limit": 0.5, "name": "plain", "sizes": (1, 2)}
TAIL = {"attributes": ("flag",)}
CASES = {
    "swiglu": Both(
        _torch_swiglu, _jax_swiglu, {"attributes": ("limit", "name", "sizes"), "version": 3},
        SWIGLU, ("name", "sizes"),
    ),
    "names of attributes": Both(
        _torch_swiglu, _jax_swiglu, {"attributes": {"upper": "limit", "n": "name", "s": "sizes"}},
        SWIGLU, ("name", "sizes"),
    ),
    "order of operands": Both(
        _torch_swiglu, _jax_swiglu,
        {"operands": ("up", "gate"), "attributes": ("limit",), "saves": ("gate", "up")},
        SWIGLU, ("name", "sizes"), (0, None),
    ),
    "lists": Both(_torch_tail, _jax_tail, TAIL, {"xs": [A, B], "bias": B, "flag": True}),
    "an absent operand": Both(
        _torch_tail, _jax_tail, TAIL, {"xs": [A, B], "bias": None, "flag": False}
    ),
    "saved results": Both(
        _torch_tail, _jax_tail, {**TAIL, "saves": ("xs", "result.1")},
        {"xs": [A, B], "bias": B, "flag": True}, (), (None,),
    ),
    "half precision": Both(
        _torch_swiglu, _jax_swiglu, {"attributes": ("limit", "name", "sizes")},
        {**SWIGLU, "gate": A.bfloat16(), "up": B.bfloat16()}, ("name", "sizes"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.filterwarnings("ignore")
def test_the_form_is_that_of_the_pytorch_decorator(case: Both) -> None:
    theirs = composites.composite("acme.both", **case.options)(case.torch)
    ours = composites.jax.composite("acme.both", **case.options)(case.jax)
    example = ExampleCall(theirs, case.arguments, frozenset(case.keyword_only))
    frontend = activation.backend().frontend
    for leaves in case.leaves:
        expected = signatures(recorded(frontend, example, leaves).text)
        assert expected, "PyTorch's call is a composite"
        assert jax_signatures(case, ours, leaves) == expected


def jax_signatures(case: Both, function: Callable[..., Any], leaves: int | None) -> list[str]:
    with enable_x64():
        names = [n for n, v in case.arguments.items() if isinstance(v, torch.Tensor | list)]
        tensors, structure = jax.tree.flatten([case.arguments[n] for n in names])
        arrays = list(map(array_of, tensors))

        def results(*flat: Any) -> list[Any]:
            operands = dict(zip(names, jax.tree.unflatten(structure, flat), strict=True))
            return jax.tree.leaves(function(**{**case.arguments, **operands}))

        if leaves == 0:
            return signatures(jax.jit(results).lower(*arrays).as_text())

        def pulled(grads: Any, *flat: Any) -> Any:
            count = len(flat) if leaves is None else leaves
            return jax.vjp(lambda *a: results(*a, *flat[count:]), *flat[:count])[1](grads)

        grads = jax.eval_shape(results, *arrays)
        return signatures(jax.jit(pulled).lower(grads, *arrays).as_text())


# ---- mistakes ----


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: swish(2.0), r"acme\.swish: x is 2\.0, and an operand is an array, .* list 'x' in"),
        (lambda: swish({"a": X}), "x is a dict, and an operand is an array, a list of arrays"),
        (lambda: norm(X, [X, 1]), "weight is 1, and an operand is an array"),
        (lambda: swish(X, beta=X), "beta is an attribute, .* an array; list 'beta' in `operands`"),
        (lambda: jax.jit(lambda x: swish(x, beta=x))(X), "beta is an attribute, and was passed an"),
        (lambda: swish(X, beta=len), "beta: <built-in function len> cannot be an attribute"),
        (lambda: swish(X, beta=1j), "beta: 1j cannot be an attribute: it is neither a number"),
        (lambda: swish(X, beta=2**70), "beta: .* is not a 64-bit integer"),
        (lambda: swish(X, beta={}), r"beta: \{\} cannot be an attribute"),
        (lambda: swish(X, beta=np.complex64(1j)), "beta: 1j cannot be an attribute"),
        (lambda: swish(X, beta=np.uint64(2**63)), "beta: .* is not a 64-bit integer"),
        (lambda: swish(X, beta=np.datetime64("2020")), "beta: .* cannot be an attribute"),
        (lambda: swish(jax.random.key(0)), r"x has the type key<fry>, .* jax\.random\.key_data"),
        (lambda: swish(X.astype(jnp.int4)), "x: PyTorch has no tensors of int4"),
        (
            lambda: decorator("acme.g")(lambda x, *, kind=jnp.float32: x)(X),
            "acme.g: kind: .*float32.* cannot be an attribute",
        ),
    ],
)
def test_mistakes_in_a_call(call: Callable[[], object], message: str) -> None:
    with pytest.raises(composites.InvalidCallError, match=message):
        call()


class Pair(NamedTuple):
    one: Any
    other: Any


def test_named_tuples_are_lists_of_operands_and_attributes() -> None:
    @composites.jax.composite("acme.pair", operands=("arrays",))
    def pair(arrays: Any, *, scales: Any) -> jax.Array:
        return arrays[0] * scales[0] + arrays[1] * scales[1]

    result = jax.jit(lambda x, y: pair(Pair(x, y), scales=Pair(2.0, 3.0)))(X, X)
    np.testing.assert_allclose(result, 5 * X, rtol=1e-6)


LARGE = jnp.arange(100.0)


def test_arrays_from_outside_are_no_constants() -> None:
    reading = decorator("acme.reading")(lambda x: x + LARGE.sum() + LARGE[:6])

    def around(x: Any, y: Any) -> Any:
        return composites.jax.composite("acme.closed")(lambda x: x * y)(x)

    with pytest.raises(composites.LoweringError, match=r"float32\[100\]; take it as an argument"):
        reading(X)
    with pytest.raises(
        composites.LoweringError, match=r"float32\[4, 6\], which the program around it computes"
    ):
        jax.jit(around)(X, X)


def test_collectives_and_ordered_effects_are_an_error() -> None:
    @composites.jax.composite("acme.mean")
    def mean(x: jax.Array) -> jax.Array:
        return jax.lax.pmean(x, "devices")

    mesh, spec = Mesh(np.array(jax.devices()[:1]), ("devices",)), PartitionSpec("devices")
    sharded = jax.shard_map(mean, mesh=mesh, in_specs=spec, out_specs=PartitionSpec())
    for run in (jax.vmap(mean, axis_name="devices"), sharded):
        message = "it reads the axis 'devices' of the program"
        with pytest.raises(composites.LoweringError, match=message):
            run(jnp.ones((1, 4)))

    @composites.jax.composite("acme.printing")
    def printing(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x, ordered=True)
        return x

    for run in (printing, jax.jit(printing), jax.grad(lambda x: printing(x).sum())):
        with pytest.raises(composites.LoweringError, match="it has an effect that is ordered"):
            run(X)


def gated(gate: jax.Array, up: jax.Array) -> jax.Array:
    return jax.nn.silu(gate) * up


def test_a_backward_that_reads_what_is_not_saved_is_an_error() -> None:
    saving = decorator("acme.gated", saves=("gate", "result"))(gated)
    with pytest.raises(
        composites.LoweringError,
        match=r"acme\.gated: the backward reads up, which `saves` leaves out; add it to `saves`",
    ):
        jax.grad(lambda x: saving(x, X).sum())(X)
    # The gradient of `up` alone does not read it.
    gradient = jax.grad(lambda x: saving(X, x).sum())(X)
    np.testing.assert_allclose(gradient, jax.nn.silu(X), rtol=1e-6)


def test_a_backward_needs_no_operand_of_which_only_the_type_matters() -> None:
    @composites.jax.composite("acme.mean", saves=())
    def mean(x: jax.Array, shift: jax.Array | None = None) -> jax.Array:
        total = jax.jit(jnp.mean)(x)
        return total if shift is None else total + shift

    gradient = jax.grad(lambda x, y: mean(x, y).sum(), argnums=(0, 1))(X, X)
    np.testing.assert_allclose(gradient[0], jnp.ones_like(X), rtol=1e-6)
    assert (gradient[1] == 1).all()
    np.testing.assert_allclose(jax.grad(mean)(X), jnp.full_like(X, 1 / X.size), rtol=1e-6)


class Norm:
    def forward(self, x: jax.Array) -> jax.Array:
        return x

    @classmethod
    def on_class(cls, x: jax.Array) -> jax.Array:
        return x


async def _awaited(x: jax.Array) -> jax.Array:
    return x


def _yielding(x: jax.Array) -> Iterator[jax.Array]:
    yield x


async def _yielding_later(x: jax.Array) -> AsyncIterator[jax.Array]:
    yield x


KINDS = ((_awaited, "an async"), (_yielding, "a generator"), (_yielding_later, "a generator"))


@pytest.mark.parametrize("decorate", [composites.composite, composites.jax.composite])
def test_functions_that_do_not_run_when_called(decorate: Function) -> None:
    for function, kind in KINDS:
        message = rf"acme\.j: {function.__name__} is {kind}"
        with pytest.raises(composites.RegistryError, match=message):
            decorate("acme.j")(function)


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: decorator(plain_swish), "plain_swish is not the name of a comp"),
        (lambda: decorator(3), r'write @composites\.jax\.composite\("namespace\.'),
        (lambda: decorator("swish")(plain_swish), "'swish' is not a valid compos"),
        (
            lambda: decorator("acme.b", operands=("x.y",))(plain_swish),
            "'x.y' is a path; take the value as an argument of its own",
        ),
        (lambda: decorator("acme.c", version=-1)(plain_swish), "version=-1 is not"),
        (lambda: decorator("acme.d", version=True)(plain_swish), "version=True is"),
        (lambda: decorator("acme.e")(lambda *x: x), r"takes \*x; a composite's"),
        (lambda: decorator("acme.f")(Shifts), "Shifts is not a function"),
        (
            lambda: decorator("acme.h", saves=("y", "result.1", "results"))(plain_swish),
            r"saves: 'y' is neither an operand \(x\) nor a result \(result, result\.1, …\)\n"
            r".*saves: 'results' is neither",
        ),
        (
            lambda: decorator("acme.i", saves=("beta",))(plain_swish),
            "saves: 'beta' is neither an operand",
        ),
        (lambda: decorator("acme.m")(Norm.forward), "forward is a method, .* has no 'self'"),
        (lambda: decorator("acme.m")(vars(Norm)["on_class"]), "on_class is a method, .*'cls'"),
    ],
)
def test_what_cannot_be_decorated(decorate: Callable[[], object], message: str) -> None:
    with pytest.raises(composites.RegistryError, match=message):
        decorate()


def test_keyword_only_arrays_are_operands_where_they_are_annotated() -> None:
    @composites.jax.composite("acme.masked")
    def masked(x: jax.Array, *, mask: jax.Array | None = None, scale: float = 2.0) -> jax.Array:
        return scale * (x if mask is None else jnp.where(mask, x, 0))

    (signature,) = signatures(jax.jit(lambda x: masked(x, mask=x > 0)).lower(X).as_text())
    assert "scale" in signature
    assert signature.count("4x6xi1") == 1


def test_the_pytorch_decorator_warns_of_arrays_once() -> None:
    @composites.composite("acme.scaled", attributes=("scale",))
    def scaled(x: Any, scale: float = 2.0) -> Any:
        return x * scale

    with pytest.warns(composites.CompositesWarning, match="scaled was called with JAX") as caught:
        results = [run(x=X) for run in (jax.jit(scaled), scaled)]
    assert (results[0] == results[1]).all()
    assert len(caught) == 1
    assert '@composites.jax.composite("acme.scaled")' in str(caught[0].message)


@pytest.mark.torch_xla
def test_the_pytorch_decorator_warns_of_nothing_else() -> None:
    @composites.composite("acme.quiet")
    def quiet(x: Any, other: Any = None) -> Any:
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (torch.ones(2), torch.ones(2, device="xla"), np.ones(2), 3, jnp.float32):
            assert quiet(value) is not None


WITHOUT_TORCH_XLA = """
import warnings
import composites, jax.numpy as jnp, torch

@composites.composite("acme.scaled")
def scaled(x):
    return x * 2

compiled = torch.compile(scaled, backend="eager", fullgraph=True)
assert (compiled(torch.ones(3)) == 2).all()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    scaled(jnp.ones(3))
print(len(caught), "acme.scaled" in str(caught[0].message), caught[0].filename)
"""


@pytest.mark.process
def test_the_warning_before_torch_xla_is_imported() -> None:
    finished = run_python(WITHOUT_TORCH_XLA)
    assert finished.stdout.split() == ["1", "True", "<string>"], finished.stderr
