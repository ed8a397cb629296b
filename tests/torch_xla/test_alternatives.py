"""Alternatives to decompositions, live: which one a call takes, and that nothing else changes."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from torch import Tensor

import composites
from composites.errors import DecompositionError, LoweringError
from lowering import activation

FUNCTIONS = """
import jax
import jax.numpy as jnp
import torch

from composites.errors import UnsupportedCallError

def two(self, *, approximate="none"):
    return self * 2

def three(self, *, approximate="none"):
    return self * 3

def declines(self, *, approximate="none"):
    raise UnsupportedCallError("it has no time")

def broken(self, *, approximate="none"):
    raise ValueError("it is broken")

def wide(self, *, approximate="none"):
    return self.to(torch.float64)

def random(self, *, approximate="none"):
    return torch.rand_like(self)

def doubled(input, weight, bias=None):
    return torch.ops.aten.linear(input, weight, bias) * 2

def jax_doubled(input, weight, bias=None):
    product = input @ weight.T
    return (product if bias is None else product + bias) * 2

def sevens(grad_output, input, weight, bias, output_mask):
    assert [type(asked) for asked in output_mask] == [bool, bool]
    return jnp.full_like(input, 7), jnp.full_like(weight, 8) if output_mask[1] else None

def torch_sevens(grad_output, input, weight):
    return torch.full_like(input, 7), torch.full_like(weight, 8)

def too_few(grad_output, input):
    return torch.full_like(input, 7)

def none(grad_output, input):
    return None, None

def transposed(grad_output, input, weight):
    return input.T, weight

def with_lse(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
             enable_gqa=False):
    return query * 0 + 5, jnp.full(query.shape[:-1], 6, jnp.float32)

def without_lse(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
                enable_gqa=False):
    return query * 0 + 5

def from_lse(grad_output, query, key, value, result, log_sum_exp, is_causal):
    return query * 0 + log_sum_exp[..., None], result * int(is_causal), value * 0

def flat(tensors, dim=0):
    return torch.cat(tensors, dim) * 2

def list_grad(grad_output, tensors, dim):
    assert dim == 0 and isinstance(tensors, list)
    return [[t * 0 + n for n, t in enumerate(tensors)]]

def rows(x: torch.Tensor, power: int) -> torch.Tensor:
    return x**power

def rows_two(x, power):
    return x * 2 * power

def to_rows(composite, self, exponent):
    return composite(self, power=int(exponent))

def rows_grad(grad_output: torch.Tensor, x: torch.Tensor, power: int) -> torch.Tensor:
    return grad_output * power * x ** (power - 1)

def rows_grad_nine(grad_output, x, power):
    return x * 0 + 9 * power

def product(x, y):
    return torch.matmul(x, y)

def jax_product(x, y):
    return x @ y * 2

def norm(x, eps=1e-5):
    return x / (x.norm() + eps)

def norm_two(x, eps=1e-5):
    return x * 0 + eps
"""

LINEAR = "op: aten::linear, backward: derive"
Enable = Callable[..., None]


@pytest.fixture
def enable(module_folder: Path, use_registry: Callable[[str], None]) -> Iterator[Enable]:
    """Turns on one entry, `planted.e`, with alternatives."""
    (module_folder / "planted_alt.py").write_text(FUNCTIONS)

    def turn_on(
        alternatives: str,
        decompositions: str = "fast",
        entry: str = "op: aten::gelu, attributes: {approximate: approximate}",
    ) -> None:
        body = f"  e: {{{entry}, kernels: {{{alternatives}}}}}\n"
        use_registry(f"namespace: planted\ncomposites:\n{body}")
        activation._environment_words.cache_clear()
        activation.statistics._entries.pop("planted.e@1", None)
        composites.enable("planted.e", decompositions=decompositions)

    yield turn_on
    composites.disable()
    activation._environment_words.cache_clear()


def alternative(function: str, more: str = "goals: fast") -> str:
    return f"{{decomposition: '{target(function)}', {more}}}"


def target(function: str) -> str:
    """`jax:f` or `f`, with the module."""
    kind, colon, name = function.rpartition(":")
    return f"{kind}{colon}planted_alt:{name}"


def gelu(value: float = 1.0, *shape: int) -> float:
    """The first number of gelu of ones, as a factor."""
    return round(F.gelu(torch.full(shape or (2, 3), value, device="xla")).reshape(-1)[0].item(), 3)


STOCK = round(F.gelu(torch.ones(1)).item(), 3)


def taken() -> dict[str, int]:
    return dict(composites.stats().entries["planted.e"].decompositions)


def declined() -> dict[str, str]:
    return {d.alternative: d.reason for d in composites.stats().entries["planted.e"].declined}


@pytest.mark.parametrize("function", ["two", "jax:two"])
def test_only_the_decomposition_changes(enable: Enable, function: str) -> None:
    texts = []
    for choice in ("stock", "fast"):
        enable(f"a: {alternative(function)}", choice)
        text = xm.get_stablehlo([F.gelu(torch.ones(2, 3, device="xla"))])
        (call,) = re.findall(r"stablehlo\.composite (.*?), decomposition = \S+ (.*)", text)
        texts.append(call)
        assert gelu() == (2 if choice == "fast" else STOCK)
    assert texts[0] == texts[1]
    assert taken() == {"a": 1}


def test_conditions_and_order(enable: Enable) -> None:
    enable(
        f"a: {alternative('two', 'goals: fast, when: {approximate: tanh}')},"
        f" b: {alternative('two', 'goals: fast, when: {rank: 3}')},"
        f" c: {alternative('two', 'goals: fast, when: {dtypes: bf16}')},"
        " d: " + alternative("two", "goals: fast, when: {where: ['self.shape[0] > 9']}") + ","
        f" e: {alternative('declines')}, f: {alternative('three')}, g: {alternative('two')}"
    )
    assert gelu() == 3
    assert declined() == {
        "a": "takes approximate = tanh, not 'none'",
        "b": "takes rank 3, not 2",
        "c": "takes operands of bf16, not f32",
        "d": "needs self.shape[0] > 9",
        "e": "it has no time",
    }
    assert gelu(1.0, 10, 1) == 2
    assert gelu(1.0, 2, 2, 2) == 2
    assert taken() == {"f": 1, "d": 1, "b": 1}


@pytest.mark.parametrize(
    ("function", "more", "message"),
    [
        ("broken", "", "planted_alt:broken failed for .*: ValueError: it is broken"),
        ("wide", "", r"planted_alt:wide gives tensor<2x3xf64>, but aten::gelu gives tensor<2x3xf3"),
        ("random", "", "draws other random numbers than the stock decomposition"),
        ("two", ", when: {where: ['self.shape[7] > 1']}", r"e: a: when: .* \(IndexError"),
    ],
)
def test_what_fails_says_so(enable: Enable, function: str, more: str, message: str) -> None:
    enable(f"a: {alternative(function, 'goals: fast' + more)}")
    with pytest.raises(LoweringError, match=message):
        gelu()


def test_a_function_that_is_not_there(enable: Enable) -> None:
    with pytest.raises(DecompositionError, match=r"planted\.e: a: .*has no function four"):
        enable(f"a: {alternative('four')}")
    assert composites.active() == ()


# ---- who chooses ----


def test_blocks_and_enable(enable: Enable) -> None:
    enable(f"a: {alternative('two')}, b: {alternative('three', 'goals: small')}")
    assert gelu() == 2
    with composites.enabled("planted.e"):
        assert gelu() == 2  # no wish of its own
    with composites.enabled("planted.e", decompositions="small"):
        assert gelu() == 3
        with composites.enabled("planted.e", decompositions="stock"):
            assert gelu() == STOCK
        composites.enable("planted.e", decompositions="e=a")
        assert gelu() == 2
        assert gelu() == 2
    assert gelu() == 2
    composites.enable("planted.e", decompositions="small")
    assert gelu() == 3
    composites.disable("planted.e")
    composites.enable("planted.e")
    assert gelu() == STOCK


def test_a_mistake_changes_nothing(enable: Enable) -> None:
    enable(f"a: {alternative('two')}")
    for wrong in ("fsat", "e=small", "f=fast"):
        with pytest.raises(DecompositionError):
            composites.enable("planted.e", decompositions=wrong)
    assert gelu() == 2


def test_the_variable(enable: Enable, monkeypatch: pytest.MonkeyPatch) -> None:
    enable(f"a: {alternative('two')}, b: {alternative('three', 'goals: small')}", "stock")
    composites.disable()
    monkeypatch.setenv("XLA_COMPOSITE_DECOMPOSITION", "small")
    composites.enable("planted.e")
    assert gelu() == 3
    with composites.enabled("planted.e", decompositions="stock"):
        assert gelu() == STOCK
    composites.disable()
    monkeypatch.setenv("XLA_COMPOSITE_DECOMPOSITION", "samll")
    with pytest.raises(DecompositionError, match="XLA_COMPOSITE_DECOMPOSITION=samll: there is no"):
        composites.enable("planted.e")


# ---- backward ----


def linear(
    bias: bool = False, *, weight: bool = True, call: Callable[..., Tensor] = F.linear
) -> tuple[float, float, float | None, float | None]:
    """First numbers of the result and the gradients of a linear layer of ones."""
    x = torch.ones(2, 3, device="xla", requires_grad=True)
    w = torch.ones(4, 3, device="xla", requires_grad=weight)
    b = torch.ones(4, device="xla", requires_grad=True) if bias else None
    result = call(x, w, b)
    result.sum().backward()

    def first(tensor: Tensor | None) -> float | None:
        return None if tensor is None else float(tensor.reshape(-1)[0])

    numbers = (float(result.detach()[0, 0]), float(x.grad[0, 0]))  # type: ignore[index]
    return (*numbers, first(w.grad), None if b is None else first(b.grad))


@pytest.mark.parametrize("function", ["doubled", "jax:jax_doubled"])
def test_the_backward_stays_that_of_the_entry(enable: Enable, function: str) -> None:
    enable(f"a: {alternative(function)}", "fast", LINEAR)
    assert linear() == (6, 4, 2, None)
    assert taken() == {"a": 1, "stock, backward": 1}
    assert "the backward is that of the entry" in declined()["a"]


@pytest.mark.parametrize("function", ["doubled", "jax:jax_doubled"])
def test_a_backward_derived_from_the_alternative(enable: Enable, function: str) -> None:
    enable(f"a: {alternative(function, 'goals: fast, backward: derive')}", "fast", LINEAR)
    assert linear() == (6, 8, 4, None)
    assert linear(bias=True) == (8, 8, 4, 4)
    assert linear(weight=False) == (6, 8, None, None)
    assert taken() == {"a": 3, "a, backward": 3}


@pytest.mark.parametrize("function", ["jax:sevens", "torch_sevens"])
def test_a_backward_of_its_own(enable: Enable, function: str) -> None:
    keys = f"goals: fast, backward: '{target(function)}', gradients: [input, weight]"
    enable(f"a: {{{keys}}}", "fast", LINEAR)
    assert linear() == (3, 7, 8, None)
    assert linear(weight=False) == (3, 7, None, None)
    assert declined() == {}
    assert linear(bias=True) == (4, 4, 2, 2)  # it has no gradient of bias
    assert declined() == {"a": "it has no gradient of bias"}
    assert taken() == {"stock": 3, "a, backward": 2, "stock, backward": 1}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("too_few", "it returns 1 gradients; return 2, of input, weight"),
        ("none", "it returns None for the gradient of input"),
        ("transposed", "the backward gives tensor<3x2xf32>, tensor<4x3xf32> as gradients"),
    ],
)
def test_wrong_backwards(enable: Enable, function: str, message: str) -> None:
    keys = f"goals: fast, backward: 'planted_alt:{function}', gradients: [input, weight]"
    enable(f"a: {{{keys}}}", "fast", LINEAR)
    with pytest.raises(LoweringError, match=message):
        linear()


def test_create_graph_differentiates_stock(enable: Enable) -> None:
    keys = "goals: fast, backward: 'planted_alt:torch_sevens', gradients: [input, weight]"
    enable(f"a: {{{keys}}}", "fast", LINEAR)
    x = torch.ones(2, 3, device="xla", requires_grad=True)
    w = torch.ones(4, 3, device="xla", requires_grad=True)
    (first,) = torch.autograd.grad(F.linear(x, w).sum(), x, create_graph=True)
    assert float(first.detach()[0, 0]) == 4
    (second,) = torch.autograd.grad(first.sum(), w)
    assert float(second[0, 0]) == 2


ATTENTION = (
    "op: aten::scaled_dot_product_attention, backward: derive, saves: [query, key, value, result,"
    " {log_sum_exp: 'composites.operators.attention:log_sum_exp'}], when: {dropout_p: 0.0}"
)


def test_further_results_that_are_saved(enable: Enable) -> None:
    enable(f"a: {alternative('jax:with_lse', _BACK)}", "fast", ATTENTION)
    q, k, v = (torch.ones(1, 2, 3, 4, device="xla", requires_grad=True) for _ in range(3))
    with torch.no_grad():
        assert float(F.scaled_dot_product_attention(q, k, v)[0, 0, 0, 0]) == 5
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    assert [float(t.grad[0, 0, 0, 0]) for t in (q, k, v)] == [6, 5, 0]  # type: ignore[index]


_BACK = "goals: fast, backward: 'jax:planted_alt:from_lse', gradients: [query, key, value]"


def test_a_further_result_that_is_missing(enable: Enable) -> None:
    enable(f"a: {alternative('jax:without_lse')}", "fast", ATTENTION)
    q = torch.ones(1, 2, 3, 4, device="xla", requires_grad=True)
    with pytest.raises(LoweringError, match="return the results, and log_sum_exp"):
        F.scaled_dot_product_attention(q, q, q)


def test_lists_of_tensors(enable: Enable) -> None:
    keys = "goals: fast, backward: 'planted_alt:list_grad', gradients: [tensors]"
    enable(f"a: {alternative('flat', keys)}", "fast", "op: aten::cat, backward: derive")
    a, b = (torch.ones(2, 2, device="xla", requires_grad=True) for _ in range(2))
    result = torch.cat([a, b])
    result.sum().backward()
    assert result.cpu().tolist() == [[2, 2]] * 4
    assert [float(t.grad[0, 0]) for t in (a, b)] == [0, 1]  # type: ignore[index]


def test_a_python_function(enable: Enable) -> None:
    entry = "function: 'planted_alt:norm', operands: [x], attributes: {eps: eps}, backward: derive"
    enable(f"a: {alternative('norm_two', _WHERE)}", "fast", entry)
    import planted_alt  # type: ignore[import-not-found]

    x = torch.ones(4, device="xla")
    assert float(planted_alt.norm(x, 1.0)[0]) == 1
    assert float(planted_alt.norm(x, 0.0)[0]) == 0.5
    assert taken() == {"a": 1, "stock": 1}
    message = r"yaml:4: planted\.e: a: when: .*there is no argument 'epz'; did you mean 'eps'\?"
    for condition in ("epz: 3", "where: ['epz > 3']"):
        more = f"goals: fast, when: {{{condition}}}"
        enable(f"a: {alternative('norm_two', more)}", "fast", entry)
        with pytest.raises(LoweringError, match=message):
            planted_alt.norm(x, 1.0)


_WHERE = "goals: fast, when: {where: ['eps > 0.5 and x.dim() == 1']}"


def test_an_adapted_call_and_a_backward_that_is_an_entry(
    enable: Enable, use_registry: Callable[[str], None]
) -> None:
    """An alternative takes the arguments of the decomposition, also with `adapt`."""
    condition = "goals: fast, when: {power: 3, where: ['x.dim() == 1']}"
    use_registry(
        "namespace: adapted\ncomposites:\n"
        "  e: {op: aten::pow.Tensor_Scalar, adapt: 'planted_alt:to_rows', backward: back,"
        f" decomposition: 'planted_alt:rows', attributes: {{power: power}},"
        f" kernels: {{a: {alternative('rows_two', condition)}}}}}\n"
        "  back: {gradients: [x], decomposition: 'planted_alt:rows_grad',"
        " attributes: {power: power},"
        f" kernels: {{b: {alternative('rows_grad_nine')}}}}}\n"
    )
    numbers = []
    for choice, power in (("fast", 3), ("fast", 2), ("e=stock,back=b", 3), ("stock", 3)):
        composites.enable("adapted.*", decompositions=choice)
        x = torch.full((2,), 2.0, device="xla", requires_grad=True)
        result = torch.pow(x, power)
        result.sum().backward()
        numbers.append((float(result.detach()[0]), float(x.grad[0])))  # type: ignore[index]
    assert numbers == [(12, 27), (4, 18), (8, 27), (8, 12)]


def test_autocast(enable: Enable) -> None:
    """Calls whose types differ from stock's under autocast are left to stock."""
    entry = "function: 'planted_alt:product', operands: [x, y], backward: derive"
    enable(f"a: {alternative('jax:jax_product')}", "fast", entry)
    import planted_alt

    x, y = (torch.ones(3, 3, device="xla", requires_grad=True) for _ in range(2))
    with torch.autocast("xla", dtype=torch.bfloat16):
        result = planted_alt.product(x, y)
    assert result.dtype == torch.bfloat16
    assert float(result.detach()[0, 0]) == 3
    assert declined() == {"a": "under autocast it gives float32[3, 3], and not bfloat16[3, 3]"}
    assert float(planted_alt.product(x, y).detach()[0, 0]) == 6
    assert taken() == {"stock": 1, "a": 1}


def test_compiled_graphs_follow_the_choice(enable: Enable) -> None:
    keys = "goals: fast, backward: 'planted_alt:torch_sevens', gradients: [input, weight]"
    enable(f"a: {alternative('doubled', keys)}", "fast", LINEAR)
    numbers = []
    for choice in ("fast", "stock"):
        composites.enable("planted.e", decompositions=choice)
        torch._dynamo.reset()
        compiled = torch.compile(lambda *arguments: F.linear(*arguments), backend="openxla")
        numbers.append(linear(call=compiled))
    assert numbers == [(6, 7, 8, None), (3, 4, 2, None)]


def test_nothing_is_slower_when_it_is_cached(
    enable: Enable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call whose computation is in the cache asks no alternative."""
    enable(f"a: {alternative('doubled')}", "fast", LINEAR)
    linear()

    def asked(*arguments: object) -> None:
        raise AssertionError("an alternative was asked again")

    monkeypatch.setattr("lowering.dispatch.definition.ActiveEntry.candidates", asked)
    assert linear()[0] == 6
