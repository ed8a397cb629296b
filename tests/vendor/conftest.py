"""What the tests of real vendors' registries share: forms of calls, golden text, and numbers.

Golden files are the StableHLO of small calls, cleaned. COMPOSITES_WRITE_GOLDEN=1 writes them:

    COMPOSITES_WRITE_GOLDEN=1 pytest tests/vendor
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm

import composites
from lowering import activation
from lowering.stablehlo import Module, clean

REGISTRIES = Path(__file__).parents[2] / "examples" / "registries"
GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Form:
    """A call on tensors by name, and the composites that it becomes, in their order."""

    call: Callable[..., Any]
    inputs: Mapping[str, torch.Tensor | tuple[int, ...]]
    """Tensors, or shapes of some."""
    emits: tuple[str, ...] = ()
    inside: int = 0
    """Composites in the decompositions of these."""
    trained: tuple[str, ...] = ()
    """Inputs whose gradients are wanted too."""
    dtype: torch.dtype = torch.float32
    """Of the inputs that are shapes."""
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tolerance(self) -> float:
        return 5e-2 if self.dtype == torch.bfloat16 else 1e-5

    def compiled(self) -> Form:
        """The same call in a graph of torch.compile that is run operator by operator."""
        torch._dynamo.reset()
        call = self.call  # a built-in function is none that torch.compile takes
        run = torch.compile(lambda **given: call(**given), backend="aot_eager", fullgraph=True)
        return replace(self, call=run)

    def run(self, device: str, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
        """Results and gradients; in another type where one is given."""
        inputs = {}
        for number, (name, given) in enumerate(self.inputs.items()):
            if isinstance(given, tuple):
                tensor = wave(*given, dtype=self.dtype, shift=number)
            else:
                tensor = given
            wide = dtype is not None and tensor.is_floating_point()
            copy = (tensor.to(dtype) if wide else tensor.clone()).to(device)
            inputs[name] = copy.requires_grad_(name in self.trained)
        if device == "xla":
            torch_xla.sync()
        results = self.call(**inputs, **self.keywords)
        results = list(results) if isinstance(results, tuple | list) else [results]
        if not self.trained:
            return results
        grad = wave(*results[0].shape).to(results[0])
        wanted = [inputs[name] for name in self.trained]
        return [*(r.detach() for r in results), *torch.autograd.grad(results[0], wanted, grad)]


def wave(*shape: int, dtype: torch.dtype = torch.float32, shift: float = 0.0) -> torch.Tensor:
    """Different numbers between -2 and 2, the same on every machine."""
    size = torch.Size(shape)
    places = torch.arange(size.numel(), dtype=torch.float64) + shift
    return (2 * torch.sin(places * 12.9898)).reshape(size).to(dtype)


def stablehlo(tensors: list[torch.Tensor]) -> str:
    """The graph of tensors on the device, cleaned."""
    text = clean(Module.parse(xm.get_stablehlo(tensors))).text
    # jaxlib before 0.10 writes two spaces in comparisons and before algorithms.
    return re.sub(r"(stablehlo\.compare|,|algorithm =)  (?=[A-Z])", r"\1 ", text)


def emitted(text: str) -> list[str]:
    """Composites of a program's own function, with operands, attributes and types."""
    main = re.search(r"func\.func (?:public )?@main.*?\n  }", text, re.DOTALL)
    assert main is not None
    calls = re.findall(r"stablehlo\.composite (\".*)", main.group())
    return [re.sub(r",? ?decomposition = @[\w.$\"]*", "", call) for call in calls]


def names(text: str) -> list[str]:
    return [call.split('"')[1] for call in emitted(text)]


def check_golden(folder: str, name: str, text: str) -> None:
    path = GOLDEN / folder / f"{name}.mlir"
    if os.environ.get("COMPOSITES_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text, (
        "differs; COMPOSITES_WRITE_GOLDEN=1 pytest tests/vendor writes it"
    )


def check_form(form: Form, golden: tuple[str, str] | None = None) -> str:
    """Golden text where it has one, the composites, and numbers as on the CPU; gives the text."""
    results = form.run("xla")
    text = stablehlo(results)
    assert tuple(names(text)) == form.emits
    assert text.count("stablehlo.composite ") == len(form.emits) + form.inside
    if golden is not None:
        check_golden(*golden, text)
    wide = torch.float32 if form.dtype == torch.bfloat16 else None
    expected = form.run("cpu", wide)
    for got, want in zip(results, expected, strict=True):
        if not want.is_floating_point():
            assert torch.equal(got.cpu().to(want.dtype), want)
            continue
        largest = float(want.abs().max()) if want.numel() else 0.0
        atol = form.tolerance * max(1.0, largest)
        torch.testing.assert_close(got.cpu().to(want.dtype), want, rtol=0, atol=atol)
    return text


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """`registries(FILE, …)`: files of examples/registries, and nothing else, are the vendors'."""
    monkeypatch.syspath_prepend(str(REGISTRIES))

    def use(*files: str) -> None:
        paths = [str(REGISTRIES / f"{file}.yaml") for file in files]
        monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", os.pathsep.join(paths))
        activation.catalog.cache_clear()

    yield use
    composites.disable()
    activation.catalog.cache_clear()


# Fixtures, because test files cannot import from here whatever way pytest imports them.


@pytest.fixture(scope="session", name="form")
def _form() -> type[Form]:
    return Form


@pytest.fixture(scope="session", name="check")
def _check() -> Callable[..., str]:
    return check_form


@pytest.fixture(scope="session", name="emitted")
def _emitted() -> Callable[[str], list[str]]:
    return emitted


@pytest.fixture(scope="session", name="stablehlo")
def _stablehlo() -> Callable[[list[torch.Tensor]], str]:
    return stablehlo


@pytest.fixture(scope="session", name="golden")
def _golden() -> Callable[[str, str, str], None]:
    return check_golden
