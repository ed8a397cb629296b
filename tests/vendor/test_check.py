"""`composites check`: what it refuses is what `enable` and the first call would refuse."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from composites_testing.packages import install, returning
from typer.testing import CliRunner, Result

import composites
from composites.errors import LoweringError
from composites.registry.catalog import builtin_registry_path
from lowering.cli.app import app

PACKAGE = Path(__file__).parent / "acme_package"
ACME = PACKAGE / "acme" / "acme.yaml"
HEAD = "schema: 1\nnamespace: umbra\ncomposites:\n"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch, nothing_on: None) -> None:
    """The package as if it were installed: its metadata stands on the import path."""
    monkeypatch.syspath_prepend(str(PACKAGE))


def check(*files: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, files)], env=environment)


def assert_good(result: Result, count: int = 1) -> None:
    files = f"{count} file{'s' * (count > 1)}"
    assert result.stderr == ""
    assert (result.exit_code, result.stdout) == (0, f"{files} checked, no problems found\n")


def write(folder: Path, entries: str) -> Path:
    file = folder / "umbra.yaml"
    file.write_text(HEAD + entries)
    return file


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """`module(NAME, SOURCE)` is on the path, whatever another test has imported by this name."""

    def put(name: str, source: str) -> None:
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(source)

    return put


def test_the_file_of_an_installed_package(tmp_path: Path) -> None:
    link, copy = tmp_path / "link.yaml", tmp_path / "copy.yaml"
    link.symlink_to(ACME)
    copy.write_text(ACME.read_text() + "  silu: {op: aten::silu}\n")
    relative = os.path.relpath(ACME)
    files: list[list[str | Path]] = [[ACME], [relative], [link], [copy], [ACME, relative]]
    for named in files:
        assert_good(check(*named), len(named))


@pytest.mark.slow
def test_the_builtin_registry() -> None:
    """It stands in for itself, and its entries for functions of transformers are tried too."""
    assert_good(check(os.path.relpath(builtin_registry_path())))


def test_a_module_of_samples_that_is_missing(tmp_path: Path) -> None:
    file = write(tmp_path, "  gelu: aten::gelu\n  silu: aten::silu\n")
    text = file.read_text().replace("schema: 1\n", "schema: 2\nsamples: no_such_package.samples\n")
    file.write_text(text)
    assert check(file).stderr == f"{file}:2: samples: there is no module no_such_package\n"


def test_each_problem_of_an_installed_file_is_printed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "  a: {op: aten::gellu}\n")
    install(tmp_path, "umbra-ops", monkeypatch, umbra_ops=returning(file))
    text = "PyTorch has no operator aten::gellu; did you mean 'aten::gelu'?"
    assert check(file).stderr == f"{file}:4: a: {text}\n"
    relative = os.path.relpath(file)
    assert check(relative).stderr == f"{relative}:4: a: {text}\n"


@pytest.mark.parametrize("broken", ["  a: {op: aten::gellu}\n", "  a: [\n"])
def test_a_corrected_copy_stands_in_for_a_broken_file(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "umbra-ops", monkeypatch, other_name=returning(write(tmp_path, broken)))
    copy = tmp_path / "copy.yaml"
    copy.write_text(HEAD + "  a: {op: aten::gelu}\n")
    assert_good(check(copy, XLA_COMPOSITE_OP="umbra.*"))


def test_another_broken_package_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken-ops", monkeypatch, broken_ops="import nowhere_at_all\n")
    result = check(ACME)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: the registry of the package broken-ops cannot be")


def test_an_entry_that_enable_refuses(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "  norm: {op: aten::native_layer_norm}\n"
        "  sigh: {function: 'acme.torch_ops:nothing', operands: [x]}\n"
        "  gelu: {op: aten::gelu}\n",
    )
    composites.enable("silu")
    before = composites.active()
    result = check(file)
    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert first == (
        f"{file}:4: norm: the frontend decomposes aten::native_layer_norm before its XLA kernel is"
        " called; write `backward: derive` to catch the call at autograd's dispatch key"
    )
    assert second.startswith(f"{file}:5: sigh: acme.torch_ops has no nothing")
    assert composites.active() == before


def test_a_decomposition_that_the_first_call_refuses(tmp_path: Path) -> None:
    entry = "{op: aten::gelu, decomposition: acme.torch_ops:wrong_shape}"
    file = write(tmp_path, f"  gelu: {entry}\n")
    result = check(file)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{file}:4: gelu: ")
    assert "gives tensor<f32>, but aten::gelu gives tensor<2x3xf32>" in result.stderr


GELU = "op: aten::gelu, attributes: {approximate: approximate}"
CAT = "op: aten::cat, attributes: {dim: dim}"
NO_EXAMPLES = {
    f"{GELU}, example: {{self: 8x8xf32, approximate: nonsense}}": "the call failed: RuntimeError:"
    " approximate argument must be either none or tanh.",
    f"{GELU}, when: {{rank: 3}}, example: {{self: 8x8xf32}}": "the entry does not claim the call:"
    " the rank of self is not 3",
    f"{CAT}, example: {{tensors: []}}": "the call failed: ValueError: torch.cat(): expected a"
    " non-empty list of Tensors",
    "op: aten::softmax.int, attributes: {dim: dim}, example: {self: 8x8xf32, dim: 5}": "the call"
    " failed: IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "op: aten::topk, attributes: {k: k}, example: {k: [1]}": "the call failed: ",
    "function: 'examples_of:plus', operands: [x], example: {x: 2xf32, y: a}": "the call failed:"
    " ValueError: no number: a",
    "function: 'examples_of:plus', operands: [x], when: {y: 1}, example: {x: 2xf32, y: 2}": "the"
    " entry does not claim the call: y is 2; the entry takes 1",
}


EXAMPLES_OF = """
def plus(x, y):
    if isinstance(y, str):
        raise ValueError(f'no number: {y}')
    return x + y
"""


def test_examples_that_their_entries_do_not_claim(
    tmp_path: Path, module: Callable[[str, str], None]
) -> None:
    module("examples_of", EXAMPLES_OF)
    file = write(tmp_path, "".join(f"  a{n}: {{{e}}}\n" for n, e in enumerate(NO_EXAMPLES)))
    result = check(file)
    assert result.exit_code == 1
    said = [line for line in result.stderr.splitlines() if ": example: " in line]
    for number, (line, problem) in enumerate(zip(said, NO_EXAMPLES.values(), strict=True)):
        assert line.startswith(f"{file}:{4 + number}: a{number}: example: {problem}")


ADAPTERS = """
from torch import Tensor
def more(composite, self, *, approximate="none"):
    return composite(self, 3)

def fewer(composite):
    return composite()

def of_function(composite, x: Tensor):
    return composite(x, x)

def called(x: Tensor):
    return x

def meaning(self: Tensor):
    return self

def rewritten(self):
    return self

def narrower(x):
    return x
"""
WRONG_ARGUMENTS = {
    "op: aten::gelu, adapt: 'adapters:more'": "adapt: adapters:more passes arguments that"
    " adapters:meaning does not have: too many positional arguments",
    "op: aten::gelu, adapt: 'adapters:fewer'": "adapt: adapters:fewer does not take the arguments"
    " of aten::gelu: too many positional arguments",
    "function: 'adapters:called', adapt: 'adapters:of_function'": "adapt: adapters:of_function"
    " passes arguments that adapters:meaning does not have: too many positional arguments",
}


def test_adapters_that_pass_or_take_other_arguments(
    tmp_path: Path, module: Callable[[str, str], None]
) -> None:
    module("adapters", ADAPTERS)
    lines = "".join(
        f"  a{n}: {{{entry}, decomposition: 'adapters:meaning'}}\n"
        for n, entry in enumerate(WRONG_ARGUMENTS)
    )
    file = write(tmp_path, lines)
    result = check(file)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"{file}:{4 + n}: a{n}: {problem}" for n, problem in enumerate(WRONG_ARGUMENTS.values())
    ]


def test_rewrites_that_take_other_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "adapters", raising=False)
    text = "from torch import Tensor\n" + ADAPTERS.replace("called(x: Tensor)", "called(x, y=0)")
    (tmp_path / "adapters.py").write_text(text)
    rewrites = "{aten::gelu: 'adapters:rewritten', 'adapters:called': 'adapters:narrower'}"
    keys = f"op: aten::silu, backward: derive, rewrites: {rewrites}"
    file = write(tmp_path, f"  a: {{{keys}}}\n")
    result = check(file)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"{file}:4: a: rewrites: adapters:rewritten does not take the arguments of aten::gelu:"
        " got an unexpected keyword argument 'approximate'",
        f"{file}:4: a: rewrites: adapters:narrower does not take the arguments of adapters:called:"
        " too many positional arguments",
    ]
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(file))
    message = "adapters:rewritten does not take the arguments of aten::gelu: got an unexpected"
    x = torch.ones(2, device="xla")
    with composites.enabled("umbra.a"), pytest.raises(LoweringError, match=message):
        torch.nn.functional.gelu(x, approximate="tanh")


def test_an_example_that_this_machine_cannot_call(tmp_path: Path) -> None:
    """An operator without a kernel for the CPU, and a function whose package is missing."""
    lists = "example: {self: 2x3xbf16, mat2: 3x2xbf16, out_dtype: f32}"
    assert_good(check(write(tmp_path, f"  mm: {{op: aten::mm.dtype, {lists}}}\n")))
    missing = "  f: {function: 'nowhere_at_all:f', operands: [x], example: {x: 2xf32}}\n"
    assert check(write(tmp_path, missing)).exit_code == 0


EXITING = {
    "import sys\nsys.exit('no license')\n": "SystemExit: no license",
    "def run(self, approximate):\n    raise SystemExit(3)\n": "SystemExit: 3",
}


def test_a_decomposition_that_exits(tmp_path: Path, module: Callable[[str, str], None]) -> None:
    file = write(tmp_path, "  gelu: {op: aten::gelu, decomposition: umbra_exits:run}\n")
    for source, message in EXITING.items():
        module("umbra_exits", source)
        result = check(file)
        assert result.exit_code == 1
        assert message in result.stderr
        assert f"{file}:4: gelu: " in result.stderr


def test_two_entries_for_every_call_are_warned_of(tmp_path: Path) -> None:
    """Either can be turned on, but not both."""
    file = write(tmp_path, "  a: {op: aten::gelu}\n  b: {op: aten::gelu}\n")
    result = check(file)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: umbra.* cannot be turned on: umbra.a (")


def test_a_function_whose_module_is_missing_is_not_checked(tmp_path: Path) -> None:
    file = write(tmp_path, "  f: {function: 'nowhere_at_all:f', operands: [x]}\n")
    result = check(file)
    message = "nowhere_at_all:f was not checked: there is no module nowhere_at_all"
    assert (result.exit_code, result.stderr) == (0, f"warning: {file}:4: f: {message}\n")


def test_without_torch_xla_it_says_what_was_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch_xla", None)
    result = check(write(tmp_path, "  norm: {op: aten::native_layer_norm}\n"))
    assert (result.exit_code, result.stdout) == (0, "1 file checked, no problems found\n")
    assert result.stderr.startswith("warning: whether the entries can be turned on was not checked")


WRAPPED = """
import functools
import torch


def kept(function):
    return function


def twice(function):
    @functools.wraps(function)
    def call(x):
        return function(function(x))

    return call


@kept
def plain(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x)


@twice
def wrapped(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x)


class Norm(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().__call__(x)

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return self.tanh(x)

    def tanh(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)

    relu = torch.relu

    def held(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x)
"""


def test_functions_that_cannot_have_copies(
    tmp_path: Path, module: Callable[[str, str], None]
) -> None:
    module("wrapped_layers", WRAPPED)
    entry = "{{function: 'wrapped_layers:{}', copies: [wrapped_layers, qqxqq], operands: [x]}}"
    names = {
        "plain": "plain", "wrapped": "wrapped", "norm": "Norm.forward",
        "scaled": "Norm.scaled", "held": "Norm.held",
    }  # fmt: skip
    file = write(tmp_path, "".join(f"  {n}: {entry.format(f)}\n" for n, f in names.items()))
    result = check(file)
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    for line, name in ((5, "wrapped"), (6, "norm"), (8, "held")):
        why = f"{file}:{line}: {name}: copies: wrapped_layers:{names[name]} cannot have copies"
        assert why in said, said
    assert f"{file}:4: plain: copies: wrapped_layers" not in said
    assert f"{file}:7: scaled: copies: wrapped_layers" not in said
    file = write(tmp_path, f"  plain: {entry.format('plain')}\n")
    result = check(file)
    assert result.exit_code == 0
    said = " ".join((result.stdout + result.stderr).split())
    assert f"{file}:4: plain: copies: package qqxqq is not installed" in said
