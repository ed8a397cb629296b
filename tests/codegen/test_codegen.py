"""Generated hooks: current, readable, and out of reach for text of a YAML file."""

import ast
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch

from composites.errors import RegistryError
from composites.registry.catalog import builtin_registry
from composites.registry.operators import find_operator
from composites.registry.reference import reference
from composites.registry.validation import load_registry, parse_registry
from lowering.codegen.conditions import condition_expressions
from lowering.codegen.loader import load_hooks
from lowering.codegen.source import generate, is_caught_at_autograd, operator_name

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "lowering" / "generated" / "ptxla.py"
GOLDEN = Path(__file__).parent / "golden"


def test_builtin_hooks_are_current() -> None:
    text = generate(builtin_registry(), "registry.yaml")
    assert GENERATED.read_text() == text, "stale; run: composites generate"


def test_builtin_reference_is_current() -> None:
    text = reference(builtin_registry(), "registry.yaml")
    assert (ROOT / "docs" / "operators.md").read_text() == text, "stale; run: composites generate"


def test_sample_registry_matches_its_golden_output() -> None:
    registry = load_registry(GOLDEN / "sample.yaml")
    assert generate(registry, "sample.yaml") == (GOLDEN / "sample.py").read_text(), (
        "run: composites codegen tests/codegen/golden/sample.yaml -o tests/codegen/golden/sample.py"
    )


def test_every_hook_has_its_operators_signature() -> None:
    registry = builtin_registry()
    tree = ast.parse(GENERATED.read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for entry in registry.composites:
        if entry.op is None or entry.adapt is not None:  # adapted: the decomposition's signature
            continue
        arguments = functions[entry.name].args
        names = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]
        operator = find_operator(entry.op)
        above = is_caught_at_autograd(entry, operator, registry)
        first = ["_composite", "_keys"] if above else ["_lowering"]
        assert names == [*first, *(argument.name for argument in operator.arguments)]
        assert all(argument.annotation for argument in arguments.args)


HOSTILE = [
    "__import__('os').system('true')",
    '"""',
    "'''",
    "\\",
    "a\nimport os",
    "{% for %}{{ 7*7 }}",
    "'] or __import__('os') or ['",
    "\u2028\u0085",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    quoted = '"' + text.encode("unicode_escape").decode().replace('"', '\\"') + '"'
    source = (
        "schema: 1\nnamespace: acme\ncomposites:\n  gelu:\n    op: aten::gelu\n"
        f"    attributes: {{flavour: {{value: {quoted}}}}}\n    when: {{approximate: [{quoted}]}}\n"
    )
    registry = parse_registry(source, f"{text}.yaml")
    generated = generate(registry, registry.source)
    (expression,) = condition_expressions(registry.composites[0], find_operator("aten::gelu"))
    nodes = list(ast.walk(ast.parse(f"{generated}\n_condition = {expression}\n")))
    assert text in {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert "__import__" not in {node.id for node in nodes if isinstance(node, ast.Name)}
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert "os" not in {alias.name for node in imports for alias in node.names}


def test_names_that_are_no_python_names() -> None:
    """Names that versions side by side could have too stay apart."""
    names = {"lambda", "a.b", "a_b", "a$b", "9", "torch", "gelu_1", "gelu__v2", "gelu@1"}
    entries = "".join(f"  {name!r}: {{op: aten::gelu}}\n" for name in sorted(names))
    source = f"schema: 1\nnamespace: acme\ncomposites:\n{entries}"
    registry = parse_registry(f"{source}  gelu: {{op: aten::gelu, version: 2}}\n", "acme.yaml")
    module = load_hooks(registry)
    assert set(module.BACKEND_HOOKS) == {registry.key(entry) for entry in registry.composites}
    hooks = {hook.__name__ for hook in module.BACKEND_HOOKS.values()}
    operators = {operator_name(entry) for entry in registry.composites}
    assert len(hooks) == len(operators) == len(names) + 1


def test_tracebacks_show_the_generated_lines() -> None:
    source = "schema: 1\nnamespace: acme\ncomposites:\n  gelu: {op: aten::gelu}\n"
    module = load_hooks(parse_registry(source, "acme.yaml"))

    with pytest.raises(AttributeError) as raised:
        module.BACKEND_HOOKS["gelu"](None, 3)
    shown = "".join(traceback.format_exception(raised.value))
    assert "<acme from acme.yaml>" in shown
    assert "_key = (self.shape, self.dtype, approximate)" in shown


def adapter(composite: Any, x: torch.Tensor) -> Any:
    return composite(x)


def without_operands(x: int) -> torch.Tensor:
    return torch.ones(x)


def with_strange_default(x: torch.Tensor, y: Any = object()) -> torch.Tensor:  # noqa: B008
    return x


def adapted(function: str, extra: str = "") -> str:
    return (
        "schema: 1\nnamespace: acme\ncomposites:\n  e:\n    op: aten::gelu\n"
        f"    adapt: {__name__}:adapter\n    decomposition: {__name__}:{function}\n{extra}"
    )


def test_entry_without_operands() -> None:
    for extra in ("", "    operands: []\n"):
        with pytest.raises(RegistryError, match=r"acme\.yaml:\d: e: operands: a composite needs"):
            parse_registry(adapted("without_operands", extra), "acme.yaml")


def test_default_that_cannot_be_written() -> None:
    registry = parse_registry(adapted("with_strange_default"), "acme.yaml")
    with pytest.raises(RegistryError, match=r"acme\.yaml:4: e: the default value <object object"):
        generate(registry, registry.source)
