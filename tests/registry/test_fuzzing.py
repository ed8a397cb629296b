"""Whatever a registry file, a condition, a value or the allowlist says, only our own errors come
out.

The default set tries a fixed small number of inputs, the same ones each time. The exhaustive set
tries more, chosen at random.
"""

from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from composites import attribute_types
from composites.allowlist import resolve, split_allowlist
from composites.attribute_types import UnsupportedValueError
from composites.errors import CompositesError
from composites.registry.catalog import Catalog, builtin_registry
from composites.registry.conditions import ConditionError, compile_condition
from composites.registry.model import Registry
from composites.registry.operators import find_operator, names
from composites.registry.packages import builtin_registry_path
from composites.registry.validation import parse_registry
from lowering.codegen.source import generate

EXAMPLES = Path(__file__).parents[2] / "examples" / "registries"

Test = Callable[..., None]


def budget(small: int, large: int, *inputs: st.SearchStrategy[Any]) -> Callable[[Test], Test]:
    """Run a test with `small` inputs in the default set, and with `large` in the exhaustive one."""

    def decorate(test: Test) -> Test:
        exhaustive = pytest.mark.exhaustive
        quiet = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
        few = settings(quiet, max_examples=small, derandomize=True)
        many = settings(quiet, max_examples=large)
        runs = [pytest.param(few, id="few"), pytest.param(many, id="many", marks=exhaustive)]

        @pytest.mark.parametrize("chosen", runs)
        def run(chosen: settings) -> None:
            @wraps(test)  # settings belong to one function, and each run has its own
            def once(*values: Any, **named: Any) -> None:
                test(*values, **named)

            chosen(given(*inputs)(once))()

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


def load(text: str) -> Registry | None:
    """Load a file as `check` and `generate` do; None for errors of ours."""
    try:
        registry = parse_registry(text, "fuzzed.yaml")
        compile(generate(registry, registry.source), "fuzzed", "exec")
    except CompositesError:
        return None
    return registry


@cache
def files() -> list[str]:
    """Entries of real files, a few at a time, so that a mutant loads quickly."""
    texts: list[str] = []
    for path in (builtin_registry_path(), *sorted(EXAMPLES.glob("*.yaml"))):
        document = yaml.safe_load(path.read_text())
        entries = list(document["composites"].items())
        for first in range(0, len(entries), 2):
            chosen = dict(entries[first : first + 2])
            texts.append(yaml.safe_dump({**document, "composites": chosen}, sort_keys=False))
    return texts


PIECES = [
    "", ":", "- ", "[", "]", "{", "}", "'", '"', "#", "&a ", "*a", "!!int ", "!!bool ", "!!set ",
    "!!timestamp ", "!!binary ", "!!str ", "!!null ", "!!python/name:os.system", "<<: ", "? ", "| ",
    "> ", "---\n", "...\n", "%YAML 9.9\n", "\t", "\n", "\n    ", "  ", "\0", "\ud800", "\ufeff",
    "\u2028", '"\\ud800"', '"\\U00110000"', ".inf", "-.inf", ".nan", "1:30", "2024-99-99", "~",
    "0x", "9" * 5000, "=", "null", "true", "1e999", "-1", "[]", "{}", "aten::", "aten::cat",
    "aten::gelu.out", "aten::silu_", "when: ", "where: ", "where: [x]", "operands: []",
    "adapt: a:b", "backward: derive", "value: ", "from: ", "type: ", "torch:mm", "os:path",
    "jax:os:getcwd",
]  # fmt: skip
PIECE = st.sampled_from(PIECES) | st.text(max_size=5)


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A real file of which up to four parts are removed, repeated, moved or replaced."""
    text = draw(st.sampled_from(files()))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 30)))
        text = text[:begin] + draw(PIECE | st.just(text[begin:end] * 2)) + text[end:]
    return text


@budget(20, 1000, mutants())
def test_mutated_files(text: str) -> None:
    load(text)


# XLA:CPU makes its process flush subnormal numbers, and hypothesis then refuses to make them.
FLOATS = st.floats(allow_subnormal=False)
ARRAYS = [
    parsed
    for item in ("i32", "string", "i64[]", "type", "array<array<i64>>")
    if (parsed := attribute_types.attribute_type(f"array<{item}>"))
]
NUMBERS = st.integers() | FLOATS | st.sampled_from([2**31, 2**63, 10**400, -1])
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=8) | st.dates()
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=2)
)
OPERATORS = st.sampled_from(
    ["aten::gelu", "aten::_softmax", "aten::mean.dim", "aten::native_layer_norm", "aten::cat",
     "aten::silu_", "aten::topk", "aten::leaky_relu", "aten::dropout", "aten::conv2d"]
)  # fmt: skip
NAMES = st.sampled_from(
    ["self", "dim", "input", "weight", "bias", "eps", "approximate", "negative_slope", "k",
     "normalized_shape", "dtypes", "rank", "where", "x", "a.b", "lambda", "Arguments", "dict"]
)  # fmt: skip
TARGETS = st.sampled_from(
    ["native", "torch:mm", "torch.nn.functional:gelu", "composites.operators.norms:rms_norm",
     "os:path", "nowhere:f", "jax:os:getcwd", "torch:Tensor.gelu", "builtins:len", "math:inf"]
)  # fmt: skip


@st.composite
def conditions(draw: st.DrawFn) -> str:
    parts = st.sampled_from(
        ["dim", "self", "approximate", "x", "1", "0", "-1", "None", "'a'", "f32", "(1, 2)", "[]",
         "1e999", "9999999999999", "1j", "...", "True", "b'a'"]
    )  # fmt: skip
    return draw(
        st.recursive(
            parts,
            lambda inner: st.one_of(
                st.builds("({} {} {})".format, inner, OPERATIONS, inner),
                st.builds("len({})".format, inner),
                st.builds("{}.{}".format, inner, PROPERTIES),
                st.builds("{}[{}]".format, inner, inner),
                st.builds("{}[{}:{}]".format, inner, inner, inner),
                st.builds("({} if {} else {})".format, inner, inner, inner),
                st.builds("not {}".format, inner),
                st.builds("-{}".format, inner),
                st.builds("({}, {})".format, inner, inner),
            ),
            max_leaves=8,
        )
    )


OPERATIONS = st.sampled_from(
    "+ - * // % == != < <= > >= in is and or ** / @ << := , is~not not~in".replace("~", " ").split()
)
PROPERTIES = st.sampled_from(
    ["shape", "dtype", "ndim", "dim()", "numel()", "is_floating_point()", "dim(1)", "T", "data",
     "__class__", "cpu()", "dim(x=1)"]
)  # fmt: skip

ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "op": OPERATORS | SCALARS,
        "function": TARGETS | st.lists(TARGETS, max_size=2) | SCALARS,
        "composite": st.text(max_size=4),
        "version": st.integers(-1, 3) | SCALARS,
        "operands": st.lists(NAMES | SCALARS, max_size=3) | VALUES,
        "attributes": st.dictionaries(
            NAMES | st.text(max_size=4),
            NAMES
            | VALUES
            | st.fixed_dictionaries(
                {},
                optional={
                    "from": NAMES,
                    "value": VALUES,
                    "type": st.sampled_from(
                        [*attribute_types.NAMES, *(type_.name for type_ in ARRAYS)]
                    ),
                    "normalize": st.just("dim"),
                    "optional": st.booleans(),
                },
            ),
            max_size=3,
        ),
        "when": st.dictionaries(NAMES, VALUES | st.lists(SCALARS, max_size=3), max_size=3)
        | st.fixed_dictionaries({"where": st.lists(conditions(), max_size=2)}),
        "adapt": TARGETS,
        "decomposition": TARGETS | SCALARS,
        "backward": st.sampled_from(["derive", "e", "f", "g"]) | SCALARS,
        "results": st.lists(st.integers(-1, 3), max_size=2),
        "saves": st.lists(NAMES | st.dictionaries(NAMES, TARGETS, max_size=1), max_size=2),
        "gradients": st.lists(NAMES, max_size=2),
        "group": st.text(max_size=4),
        "rewrites": st.dictionaries(OPERATORS | TARGETS, TARGETS, max_size=2),
        "jax": st.dictionaries(TARGETS, TARGETS, max_size=2),
    },
)


@budget(40, 1000, st.fixed_dictionaries({"e": ENTRIES}, optional={"f": ENTRIES}))
def test_structured_files(entries: dict[str, Any]) -> None:
    # Most keys do not fit the operator, so entries with few keys get further.
    document = {"schema": 1, "namespace": "acme", "composites": entries}
    load(yaml.safe_dump(document, sort_keys=False))


@budget(40, 1000, OPERATORS, st.dictionaries(NAMES, FLOATS | SCALARS, min_size=1, max_size=1))
def test_values_of_conditions(operator: str, values: dict[str, Any]) -> None:
    entry = {"op": operator, "when": values}
    load(yaml.safe_dump({"schema": 1, "namespace": "acme", "composites": {"e": entry}}))


@budget(50, 3000, conditions() | st.text(max_size=30))
def test_conditions(text: str) -> None:
    """A condition that is accepted compiles, and evaluates without side effects."""
    for operator in ("aten::_softmax", "aten::mean.dim"):
        try:
            written = compile_condition(text, names(find_operator(operator).arguments))
        except ConditionError:
            continue
        compile(written, "condition", "eval")


@budget(
    100,
    10_000,
    st.sampled_from([*attribute_types.TABLE, *ARRAYS]),
    VALUES
    | st.just(10**5000)
    | st.lists(st.just(-(10**5000)))
    | st.complex_numbers(allow_subnormal=False)
    | st.binary(max_size=3)
    | st.lists(NUMBERS, max_size=4),
)
def test_attribute_values(type_: attribute_types.AttributeType, value: Any) -> None:
    for write in (type_.write, attribute_types.by_value, attribute_types.element_type):
        try:
            text = write(value)
        except UnsupportedValueError:
            continue
        text.encode()


@cache
def catalog() -> Catalog:
    text = "schema: 1\nnamespace: acme\ncomposites:\n  gelu: {op: aten::gelu}\n"
    return Catalog((parse_registry(text, "acme.yaml"), builtin_registry()))


ITEMS = st.sampled_from(
    ["gelu", "softmax", "all", "acme.gelu", "acme.*", "ptxla.*", "matmul_out_dtype", "*", ".*", "-",
     "--gelu", "-all", "-acme.*", "", " "]
) | st.text(max_size=8)  # fmt: skip


@budget(60, 1000, st.lists(ITEMS, max_size=4).map(",".join))
def test_allowlist(text: str) -> None:
    try:
        entries = resolve(split_allowlist(text), catalog())
    except CompositesError:
        return
    assert set(entries) <= set(catalog())
