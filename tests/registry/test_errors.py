"""What a vendor sees for a wrong registry file: one table of file text and exact messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from composites.errors import RegistryError
from composites.registry.validation import load_registry, parse_registry


def entry(*lines: str) -> str:
    """A file whose one entry, `e` on line 4, has these lines (from line 5 on)."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"schema: 1\nnamespace: acme\ncomposites:\n  e:\n{body}"


def gradients(names: str) -> str:
    """A file whose entry `g`, on line 6, is the backward of `e` and has these gradients."""
    function = "composites.operators.activations:bloom_gelu_backward"
    return (
        "schema: 1\nnamespace: acme\ncomposites:\n  e: {op: aten::gelu, backward: g}\n  g:\n"
        f"    {{gradients: {names}, decomposition: '{function}'}}\n"
    )


def messages(text: str) -> list[str]:
    with pytest.raises(RegistryError) as raised:
        parse_registry(text, "acme.yaml")
    return [str(problem) for problem in raised.value.problems]


GELU = "op: aten::gelu"
SOFTMAX = "op: aten::_softmax"
LEAKY = "op: aten::leaky_relu"

WRONG: dict[str, tuple[str, str | list[str]]] = {
    "neither operator nor function": (
        entry("version: 1"),
        "4: e: key 'op' is missing; an entry needs `op`, `function`, or `gradients` (for the"
        " backward of another entry)",
    ),
    "operator and function": (
        entry(GELU, "function: acme.gelu:Gelu.forward", "operands: [input]"),
        "4: e: an entry has either `op` or `function`, not both",
    ),
    "function without operands": (
        entry("function: acme.gelu:Gelu.forward"),
        "4: e: function: needs `operands`, the tensors that the composite takes",
    ),
    "saves what is neither an operand nor a result": (
        entry(GELU, "backward: derive", "saves: [self, gate, result.0, result.1]"),
        [
            f"7: e: saves: {name!r} is neither an operand (self) nor a result (result, result.1, …)"
            for name in ("gate", "result.0")
        ],
    ),
    "no function's name": (
        entry("function: acme.gelu", "operands: [input]"),
        "5: e: 'acme.gelu' is not a function; write package.module:function or"
        " package.module:Class.method",
    ),
    "no name of what a JAX function makes": (
        entry(GELU, "jax: {'optax:scale_by_adam.<locals>': 'torch:mm'}"),
        [
            "6: e: jax optax:scale_by_adam.<locals>: 'optax:scale_by_adam.<locals>' is not a"
            " function; write package.module:function, package.module:Class.method, or"
            " package.module:function.<locals>.name for what a function makes"
        ],
    ),
    "rewrites what is neither operator nor function": (
        entry(GELU, "rewrites: {mm: 'torch:mm'}"),
        "6: e: rewrites mm: 'mm' is neither an operator such as aten::mm.out nor"
        " package.module:function",
    ),
    "rewrites an operator that is not there": (
        entry(GELU, "rewrites: {aten::mm.uot: 'torch:mm'}"),
        "6: e: rewrites: operator aten::mm has no overload uot (known: aten::mm,"
        " aten::mm.dtype, aten::mm.dtype_out, aten::mm.out)",
    ),
    "rewritten by what is not there": (
        entry(GELU, "rewrites: {aten::mm.out: 'composites.operators.rewrites:mm_uot'}"),
        "6: e: rewrites: module composites.operators.rewrites has no function mm_uot;"
        " did you mean 'mm_out'?",
    ),
    "adapted to nothing": (
        entry(GELU, "adapt: composites.operators.norms:of_module"),
        "6: e: adapt: needs `decomposition: package.module:function`, a PyTorch function, or a"
        " JAX function with jax:, that takes the composite's operands and attributes",
    ),
    "condition that names nothing": (
        entry(GELU, "when: {where: ['slf.dim() == 4']}"),
        "6: e: when: where: 'slf.dim() == 4': there is no argument 'slf'; did you mean 'self'?",
    ),
    "condition that calls": (
        entry(GELU, "when: {where: ['self.cpu()']}"),
        "6: e: when: where: 'self.cpu()': 'self.cpu()' is not allowed in a condition (use"
        " len(x), x.dim(), x.numel(), x.is_floating_point())",
    ),
    "condition that asks for more": (
        entry(GELU, "when: {where: ['self.data == 1']}"),
        "6: e: when: where: 'self.data == 1': 'self.data' is not available in a condition (use"
        " shape, dtype, ndim, dim(), numel(), is_floating_point())",
    ),
    "condition that is no expression": (
        entry(GELU, "when: {where: ['self ==']}"),
        "6: e: when: where: 'self ==' is not an expression: invalid syntax",
    ),
    "not yaml": ("a: [1", "1: not valid YAML: expected ',' or ']', but got '<stream end>'"),
    "empty": ("", "1: the file must be a mapping of keys to values, not None"),
    "a list": ("- 1", "1: the file must be a mapping of keys to values, not [1]"),
    "no namespace": (
        "schema: 1\ncomposites: {}",
        "1: key 'namespace' is missing",
    ),
    "newer schema": (
        "schema: 2\nnamespace: acme\ncomposites: {}",
        "1: schema: must be 1, not 2",
    ),
    "namespace": (
        "schema: 1\nnamespace: 9acme\ncomposites: {}",
        "2: '9acme' is not a composite namespace such as acme",
    ),
    "name": (
        "schema: 1\nnamespace: acme\ncomposites:\n  'a b': {op: aten::gelu}",
        "4: a b: 'a b' is not a composite name: letters, digits, _ and $, joined by dots",
    ),
    "duplicate entry": (
        "schema: 1\nnamespace: acme\ncomposites:\n  a: {op: aten::gelu}\n  a: {op: aten::silu}",
        "5: key 'a' appears twice, first on line 4",
    ),
    "key that YAML reads as true": (
        "schema: 1\nnamespace: acme\ncomposites:\n  on: {op: aten::gelu}",
        "4: key True is not a string; write it in quotes: 'on'",
    ),
    "anchor": (
        entry("op: &a aten::gelu", "backward: *a"),
        [
            "5: anchors and aliases are not supported; write the value out",
            "6: anchors and aliases are not supported; write the value out",
        ],
    ),
    "python tag": (
        entry("op: !!python/object/apply:os.system ['true']"),
        "5: tag 'tag:yaml.org,2002:python/object/apply:os.system' is not supported; write plain"
        " keys and values",
    ),
    "python tag of a scalar": (
        entry("op: !!python/name:os.system"),
        "5: not valid YAML: could not determine a constructor for the tag"
        " 'tag:yaml.org,2002:python/name:os.system'",
    ),
    "copies of nothing": (
        entry(GELU, "copies: transformers"),
        "4: e: copies: needs `function`, whose copies are caught",
    ),
    "copies in what is no package": (
        entry("function: a.b:c", "operands: [x]", "copies: [transformers, a.b:c]"),
        "7: e: copies 1: 'a.b:c' is not a package such as transformers or acme.layers",
    ),
    "unknown key": (
        entry(GELU, "atributes: {approximate: approximate}"),
        "6: e: unknown key 'atributes'; did you mean 'attributes'? (the keys are op,"
        " function, copies, composite, version, operands, attributes, when, adapt,"
        " decomposition, backward, results, saves, intermediates, gradients, group,"
        " rewrites, jax, example, samples, alternatives, kernels)",
    ),
    "version": (
        entry(GELU, "version: one"),
        "6: e: composites.e.version: input should be a valid integer, not 'one'",
    ),
    "operator text": (
        entry("op: gelu"),
        "5: e: 'gelu' is not an operator such as aten::gelu or aten::mean.dim",
    ),
    "operator": (
        entry("op: aten::gellu"),
        "5: e: PyTorch has no operator aten::gellu; did you mean 'aten::gelu'?",
    ),
    "overload": (
        entry("op: aten::_softmax.dim"),
        "5: e: operator aten::_softmax has no overload dim (known: aten::_softmax,"
        " aten::_softmax.out)",
    ),
    "in-place operator": (
        entry("op: aten::silu_"),
        "5: e: aten::silu_ writes to an argument or returns a view of one; name the operator"
        " that returns a new tensor (in-place and out= calls reach it too)",
    ),
    "dimension of the result": (
        entry("op: aten::stack", "attributes: {dim: {from: dim, normalize: dim}}"),
        "6: e: attribute dim: dim of aten::stack counts the dimensions of its result, which has"
        " one more than its operands; leave `normalize` out",
    ),
    "list of tensors that can be missing": (
        entry("op: aten::index.Tensor"),
        "5: e: aten::index.Tensor takes a list of tensors of which some can be absent"
        " (indices), and consumers could not tell which; pass those that are there to a"
        " function of your own with `adapt`, and what tells them apart as an attribute",
    ),
    "operand": (
        entry("op: aten::gelu_backward", "operands: [grad, self]"),
        [
            "6: e: operands: aten::gelu_backward has no tensor argument 'grad' (it has grad_output,"
            " self)",
            "6: e: operands: grad_output must be listed too: only an optional tensor can be left"
            " out",
        ],
    ),
    "attribute from nothing": (
        entry(SOFTMAX, "attributes: {dim: dimm}"),
        "6: e: attribute dim: aten::_softmax has no argument 'dimm'; did you mean 'dim'?"
        " (it has dim, half_to_float)",
    ),
    "attribute from a tensor": (
        entry(SOFTMAX, "attributes: {x: self}"),
        "6: e: attribute x: argument self cannot be an attribute because it is a tensor; list"
        " it in `operands`",
    ),
    "attribute type": (
        entry(SOFTMAX, "attributes:", "  dim: {from: dim, type: i65}"),
        "7: e: 'i65' is not an attribute type; did you mean 'i64'? (known: i64, i32, f32,"
        " f64, bool, string, type, i64[], f32[], bool[], and arrays of these such as"
        " array<i32>)",
    ),
    "attribute type of another kind": (
        entry(SOFTMAX, "attributes:", "  dim: {from: dim, type: string}"),
        "7: e: attribute dim: argument dim (int) cannot be of type string; it can be i64, i32,"
        " f32, f64",
    ),
    "attribute without source": (
        entry(SOFTMAX, "attributes:", "  dim: {type: i64}"),
        "7: e: attributes dim: write either `from:` an operator argument or `value:` a constant",
    ),
    "attribute name": (
        entry(SOFTMAX, "attributes: {'a b': dim}"),
        "6: e: attributes a b: 'a b' is not an attribute name such as approximate",
    ),
    "constant of no type": (
        entry(SOFTMAX, "attributes: {a: {value: [1, x]}}"),
        "6: e: attribute a: [1, 'x'] has no attribute type; a list must hold only numbers or"
        " only booleans, or have a `type` such as array<string>",
    ),
    "normalize": (
        entry(GELU, "attributes: {a: {from: approximate, normalize: dim}}"),
        "6: e: attribute a: `normalize: dim` needs a dimension, but approximate is of kind string",
    ),
    "argument that can be None": (
        entry("op: aten::mean.dim", "attributes: {dims: dim}"),
        "6: e: attribute dims: argument dim can be None; write `optional: true` to leave the"
        " attribute out in that case",
    ),
    "condition on nothing": (
        entry(GELU, "when: {aproximate: tanh}"),
        "6: e: when: aten::gelu has no argument 'aproximate' that is not a tensor; did you mean"
        " 'approximate'? (a condition can name approximate, dtypes, rank, where)",
    ),
    "condition of another kind": (
        entry(GELU, "when: {approximate: 3}"),
        "6: e: when: approximate is of kind string; 3 is not",
    ),
    "dtype": (
        entry(GELU, "when: {dtypes: [float32]}"),
        "6: e: when: 'float32' is not an element type; did you mean 'f32'? (known: f64, f32,"
        " f16, bf16, i64, i32, i16, i8, ui8, i1, complex<f32>, complex<f64>, ui16, ui32, ui64,"
        " f8E5M2, f8E4M3FN)",
    ),
    "dtype that torch_xla lacks": (
        entry(GELU, "when: {dtypes: [f8E4M3FNUZ]}"),
        "6: e: when: torch_xla has no tensors of f8E4M3FNUZ (it has f64, f32, f16, bf16, i64,"
        " i32, i16, i8, ui8, i1, complex<f32>, complex<f64>, ui16, ui32, ui64, f8E5M2,"
        " f8E4M3FN)",
    ),
    "backward": (
        entry(GELU, "backward: gelu_backward"),
        "6: e: backward: there is no entry 'gelu_backward'",
    ),
    "own backward": (
        entry(GELU, "backward: e"),
        "6: e: backward: an entry cannot be its own backward",
    ),
    "decomposition text": (
        entry(GELU, "decomposition: my gelu"),
        [
            "6: e: 'my gelu' is not a decomposition; write native, package.module:function, or"
            " jax:package.module:function for a JAX function"
        ],
    ),
    "decomposition module": (
        entry(GELU, "decomposition: qqxqq.ops:gelu"),
        "6: e: decomposition: there is no module qqxqq",
    ),
    "decomposition function": (
        entry(GELU, "decomposition: os.path:joinn"),
        "6: e: decomposition: module os.path has no function joinn; did you mean 'join'?",
    ),
    "gradients of what is no operand of the forward": (
        gradients("[slef, '']"),
        [
            "6: g: gradients: acme.e has no operand 'slef'; did you mean 'self'? (it has self)",
            "6: g: gradients: acme.e has no operand '' (it has self)",
        ],
    ),
    "gradients of one operand twice": (
        gradients("[self, self]"),
        "6: g: gradients: an operand appears twice",
    ),
    "operands of a function twice": (
        entry("function: math:exp", "operands: [x, x]"),
        "6: e: operands: an argument or path appears twice",
    ),
    "operands that are one parameter": (
        entry("function: math:exp", "operands: [self.x, self_x]"),
        "6: e: operands: an argument or path appears twice",
    ),
    "saves without a name": (
        entry(GELU, "backward: derive", "saves: [self, {'': 'math:exp', '@': 'math:exp'}]"),
        [
            "7: e: saves: '' is not the name of a value, such as inverse_rms",
            "7: e: saves: '@' is not the name of a value, such as inverse_rms",
        ],
    ),
    "a condition that no value meets": (
        entry(GELU, "when: {approximate: []}"),
        "6: e: when: approximate: the list is empty; write a value, or leave approximate out",
    ),
    "a condition on no element type": (
        entry(GELU, "when: {dtypes: []}"),
        "6: e: when: dtypes: the list is empty; write a value, or leave dtypes out",
    ),
    "a condition on no rank": (
        entry(GELU, "alternatives: {a: {decomposition: 'm:f', when: {rank: []}}}"),
        "6: e: alternatives a: when: rank: the list is empty; write a value, or leave rank out",
    ),
    "schema that is true": (
        "schema: true\nnamespace: acme\ncomposites: {}",
        "1: schema: must be 1, not True",
    ),
    "decomposition signature": (
        entry(GELU, "decomposition: os.path:basename"),
        "6: e: decomposition: os.path:basename(p) does not take the arguments of aten::gelu"
        " (got an unexpected keyword argument 'approximate'); write"
        " def basename(self, *, approximate='none')",
    ),
    "not a number": (
        entry(LEAKY, "when: {negative_slope: [1, .nan]}"),
        "6: e: when: negative_slope: nan is equal to no value; remove it",
    ),
    "not a number for a function": (
        entry("function: m:f", "operands: [x]", "when: {p: .nan}"),
        "7: e: when: p: nan is equal to no value; remove it",
    ),
    "infinity as an integer": (
        entry(SOFTMAX, "when: {dim: .inf}"),
        "6: e: when: dim is of kind int; inf is not",
    ),
    "an integer that is too large": (
        entry(LEAKY, "attributes: {a: {value: 99999999999999999999}}"),
        "6: e: attribute a: 99999999999999999999 is not a 64-bit integer",
    ),
    "infinity as a constant of integers": (
        entry(LEAKY, "attributes: {a: {value: .inf, type: i64}}"),
        "6: e: attribute a: constant inf cannot be of type i64; it can be f32, f64",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_file(case: str) -> None:
    text, expected = WRONG[case]
    lines = [expected] if isinstance(expected, str) else expected
    assert messages(text) == [f"acme.yaml:{line}" for line in lines]


def test_an_operator_without_default_overload() -> None:
    (message,) = messages(entry("op: aten::std_mean.nope"))
    assert message.startswith("acme.yaml:5: e: operator aten::std_mean has no overload nope (")


def test_all_problems_at_once_in_the_order_of_their_lines() -> None:
    text = (
        "schema: 1\nnamespace: acme\ncomposites:\n  a: {op: aten::gellu}\n"
        "  b: {op: aten::gelu, colour: red}\n  c: {op: aten::gelu, backward: d}\n"
    )
    assert [message.split(":")[1] for message in messages(text)] == ["4", "5", "6"]


def test_file_that_is_not_there() -> None:
    with pytest.raises(RegistryError, match=r"nowhere\.yaml:1: cannot be read: No such file"):
        load_registry("nowhere.yaml")


def test_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RegistryError, match="is not UTF-8 text"):
        load_registry(path)
