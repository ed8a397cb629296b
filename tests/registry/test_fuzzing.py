"""Whatever a registry file or a condition says, only our own errors come out.

The default set tries a fixed small number of inputs, the same ones each time. The exhaustive set
tries more, chosen at random.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from composites.errors import CompositesError
from composites.registry.catalog import builtin_registry_path
from composites.registry.conditions import ConditionError, compile_condition
from composites.registry.model import Registry
from composites.registry.operators import find_operator
from composites.registry.validation import parse_registry
from lowering.codegen.source import generate

EXAMPLES = Path(__file__).parents[2] / "examples" / "registries"

Test = Callable[..., None]


def budget(small: int, large: int) -> Callable[[Test], Test]:
    """Run a test with `small` inputs in the default set, and with `large` in the exhaustive one."""

    def decorate(test: Test) -> Test:
        exhaustive = pytest.mark.exhaustive
        quiet = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
        few = settings(quiet, max_examples=small, derandomize=True)
        many = settings(quiet, max_examples=large)
        runs = [pytest.param(few, id="few"), pytest.param(many, id="many", marks=exhaustive)]

        @pytest.mark.parametrize("chosen", runs)
        def run(chosen: settings) -> None:
            chosen(test)()

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
    found: list[str] = []
    for path in (builtin_registry_path(), *sorted(EXAMPLES.glob("*.yaml"))):
        document = yaml.safe_load(path.read_text())
        entries = list(document["composites"].items())
        for first in range(0, len(entries), 2):
            chosen = dict(entries[first : first + 2])
            found.append(yaml.safe_dump({**document, "composites": chosen}, sort_keys=False))
    return found


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


@budget(small=20, large=1000)
@given(mutants())
def test_mutated_files(text: str) -> None:
    load(text)


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


@budget(small=50, large=3000)
@given(conditions() | st.text(max_size=30))
def test_conditions(text: str) -> None:
    """A condition that is accepted compiles, and evaluates without side effects."""
    for operator in ("aten::_softmax", "aten::mean.dim"):
        try:
            written = compile_condition(text, find_operator(operator).kinds)
        except ConditionError:
            continue
        compile(written, "condition", "eval")
