"""JAX programs with entries on and off: their results, their composites, and why calls are left
alone. flax is imported by what uses it, because that takes a second."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import composites.jax
from composites_testing.jax_calls import bits
from lowering.frontends.jax.internals import KNOWS_SUMS

Function = Callable[..., Any]
Call = tuple[Function, tuple[Any, ...]]
"""A function and its arguments."""

RESULTS = ["batch_stats"]
"""The collection that batch norms of flax.linen change."""


def backward(entry: str) -> list[str]:
    """The backward of an entry, where JAX says in which order it adds gradients up."""
    return [f"ptxla.{entry}_backward"] if KNOWS_SUMS else []


def normal(seed: int, *shape: int) -> Any:
    """Normally distributed numbers, which XLA need not compile."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def weighted(function: Function, *arguments: Any) -> Any:
    """A sum of what a function returns, with another weight for each element."""
    result = function(*arguments).astype(jnp.float32)
    return (result * jnp.cos(jnp.arange(result.size)).reshape(result.shape)).sum()


def gradients(function: Function, indices: tuple[int, ...] | None = None) -> Function:
    """The weighted sum and its gradients, of all arrays of floats or of those at these indices."""

    def run(*arrays: Any) -> Any:
        floats = (n for n, x in enumerate(arrays) if jnp.issubdtype(x.dtype, jnp.floating))
        return jax.value_and_grad(partial(weighted, function), indices or tuple(floats))(*arrays)

    return run


def with_and_without(program: Function, entries: tuple[str, ...], *arguments: Any) -> str:
    """The text of a program while entries are on. Its results have the bits of those without."""
    return all_with_and_without({"the program": (program, arguments)}, *entries)


def all_with_and_without(programs: Mapping[str, Call], *entries: str) -> str:
    """The text of several programs, compiled as one, while entries are on. The results of each have
    the bits of those without."""

    def run(arguments: Any) -> Any:
        return {name: program(*arguments[name]) for name, (program, _) in programs.items()}

    arguments = {name: values for name, (_, values) in programs.items()}
    compiled = jax.jit(run)
    before = compiled(arguments)
    with composites.jax.enabled(*entries):
        lowered = compiled.lower(arguments)
        after = lowered.compile()(arguments)
    changed = [name for name in programs if bits(after[name]) != bits(before[name])]
    assert not changed, f"with {', '.join(entries)}, other results: {changed}"
    return str(lowered.as_text())


def same_without_jit(call: Callable[[], Any], *entries: str) -> None:
    """Check that a call gives the same bits while entries are on."""
    before = bits(call())
    with composites.jax.enabled(*entries):
        assert bits(call()) == before


def calls_in(text: str) -> list[str]:
    """The lines of a program that are composites."""
    return [line for line in text.splitlines() if "stablehlo.composite" in line]


def left_alone() -> Counter[tuple[str, str]]:
    """The number of calls of each entry that were left alone so far, by reason."""
    counts: Counter[tuple[str, str]] = Counter()
    for name, entry in composites.jax.stats().entries.items():
        for fallback in entry.fallbacks:
            counts[name, fallback.reason] += fallback.calls
    return counts


def reasons(entry: str, since: Counter[tuple[str, str]]) -> list[str]:
    """The reasons why calls of an entry were left alone since then."""
    return [reason for name, reason in left_alone() - since if name == f"ptxla.{entry}"]


def assert_left_alone(programs: Mapping[str, tuple[str, Call, str]]) -> None:
    """Check that programs have no composites and the results they have without: by name, the
    entry, the call, and a part of the reason why the entry leaves it alone."""
    entries = {entry for entry, _, _ in programs.values()}
    before = left_alone()
    text = all_with_and_without({n: call for n, (_, call, _) in programs.items()}, *entries)
    assert calls_in(text) == []
    missing = [
        f"{name}: {reason!r} is none of {reasons(entry, before)}"
        for name, (entry, _, reason) in programs.items()
        if not any(reason in other for other in reasons(entry, before))
    ]
    assert not missing, "\n".join(missing)


def assert_same_errors(calls: Mapping[str, Function], *entries: str) -> None:
    """Check that calls raise the errors which they raise without entries."""
    different = []
    for name, call in calls.items():
        expected = _error(call)
        assert expected is not None, f"{name} raises no error"
        with composites.jax.enabled(*entries):
            actual = _error(call)
        if actual != expected:
            different.append(f"{name}: {actual}, and without composites {expected}")
    assert not different, "\n".join(different)


def _error(call: Function) -> tuple[type, str] | None:
    try:
        call()
    except Exception as error:
        return type(error), str(error)
    return None


# ---- modules of flax ----


def linen_function(module: Any, x: Any, **options: Any) -> tuple[Function, Any]:
    """A function of variables and an input, which returns results and changed variables; and the
    variables, which are not ones and zeros. `options` are other ones of the module that is called
    than of the one whose variables they are."""
    called = module.clone(**options) if options else module

    def run(variables: Any, x: Any) -> Any:
        return called.apply(variables, x, mutable=RESULTS)

    return run, _other(module.init(jax.random.key(1), x))


def nnx_function(module: Any) -> tuple[Function, Any]:
    """The function and the variables of a module of flax.nnx, as `linen_function` has them."""
    from flax import nnx

    graph, state = nnx.split(module)

    def run(state: Any, x: Any) -> Any:
        module = nnx.merge(graph, jax.tree.map(lambda leaf: leaf, state))  # of its own variables
        return module(x), nnx.state(module)

    return run, _other(state)


def _other(variables: Any) -> Any:
    """Variables that are not ones and zeros."""

    def other(array: Any) -> Any:
        return array + np.linspace(0, 1, array.size).reshape(array.shape).astype(array.dtype)

    return jax.tree.map(other, variables)


def by_name(variables: Any) -> dict[str, Any]:
    """The variables of a norm by what both interfaces of flax call them."""
    return {
        name: leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(variables)
        for name in ("scale", "bias", "mean", "var")
        if f"'{name}'" in jax.tree_util.keystr(path)
    }
