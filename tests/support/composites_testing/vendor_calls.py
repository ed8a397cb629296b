"""Calls that vendors' composites stand for: their text in StableHLO, and the CPU's numbers.

Golden files are the StableHLO of small calls, cleaned. COMPOSITES_WRITE_GOLDEN=1 writes them:

    COMPOSITES_WRITE_GOLDEN=1 pytest tests/vendor
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm

from lowering.stablehlo import Module, clean

GOLDEN = Path(__file__).parents[2] / "vendor" / "golden"

Inputs = Mapping[str, torch.Tensor | tuple[int, ...]]
"""Tensors, or shapes of some, by the names of arguments."""


@dataclass(frozen=True)
class Form:
    """A call on tensors by name, and the composites that it becomes, in their order."""

    call: Callable[..., Any]
    inputs: Inputs
    emits: tuple[str, ...]
    inside: int
    """Composites in the decompositions of these."""
    trained: tuple[str, ...]
    """Inputs whose gradients are computed too."""
    dtype: torch.dtype
    """Of the inputs that are shapes."""
    keywords: Mapping[str, Any]

    def tensors(self, device: str) -> dict[str, torch.Tensor]:
        """The inputs; on the CPU, bf16 is computed in f32."""
        tensors = {}
        for number, (name, given) in enumerate(self.inputs.items()):
            if isinstance(given, tuple):
                tensor = wave(*given, dtype=self.dtype, shift=number)
            else:
                tensor = given.clone()
            if device == "cpu" and self.dtype == torch.bfloat16 and tensor.is_floating_point():
                tensor = tensor.float()
            tensors[name] = tensor.to(device).requires_grad_(name in self.trained)
        return tensors

    def results(self, tensors: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        results = self.call(**tensors, **self.keywords)
        return list(results) if isinstance(results, tuple | list) else [results]

    def problems_of_text(self, text: str) -> Iterator[str]:
        """The ways in which the graph of the call is not the expected one."""
        names = [call.split('"')[1] for call in emitted(text)]
        if tuple(names) != self.emits:
            yield f"emits {names}, not {list(self.emits)}"
        count = text.count("stablehlo.composite ")
        if count != len(self.emits) + self.inside:
            yield f"{count} composites, not {len(self.emits)} and {self.inside} inside"

    def problems_of_numbers(self, computed: Sequence[torch.Tensor]) -> Iterator[str]:
        """The ways in which results and gradients differ from the CPU's."""
        tensors = self.tensors("cpu")
        results = self.results(tensors)
        expected = [*results, *gradients([(self, tensors, results)])[0]]
        for number, (one, other) in enumerate(zip(computed, expected, strict=True)):
            largest = float(other.detach().abs().max()) if other.numel() else 0.0
            tolerance = 5e-2 if self.dtype == torch.bfloat16 else 1e-5
            atol = tolerance * max(1.0, largest) if other.is_floating_point() else 0
            try:
                mine = one.detach().cpu().to(other.dtype)
                torch.testing.assert_close(mine, other.detach(), rtol=0, atol=atol)
            except AssertionError as error:
                yield f"result {number}: {error}"


def form(
    call: Callable[..., Any],
    inputs: Inputs,
    *emits: str,
    inside: int = 0,
    trained: tuple[str, ...] = (),
    dtype: torch.dtype = torch.float32,
    **keywords: Any,
) -> Form:
    """The form of a call with these keywords."""
    return Form(call, inputs, emits, inside, trained, dtype, keywords)


Called = tuple[Form, Mapping[str, torch.Tensor], Sequence[torch.Tensor]]
"""A form, its inputs and its results."""


def gradients(called: Sequence[Called]) -> list[list[torch.Tensor]]:
    """The gradients of each form's first result, for its trained inputs."""
    trained = [one for one in called if one[0].trained]
    first = [results[0] for _, _, results in trained]
    leaves = [tensors[name] for form, tensors, _ in trained for name in form.trained]
    waves = [wave(*result.shape).to(result) for result in first]
    found = iter(torch.autograd.grad(first, leaves, waves) if first else ())
    return [[next(found) for _ in form.trained] for form, _, _ in called]


def check_forms(
    forms: Mapping[str, Form], golden: str | None = None, compiled: bool = False
) -> dict[str, str]:
    """Check the text and the numbers of forms, and give the texts.

    Text is compared with files of the folder `golden` too, where one is given. The device computes
    all forms in one graph. `compiled` puts all calls into one graph of torch.compile, which is run
    operator by operator.
    """
    inputs = {name: form.tensors("xla") for name, form in forms.items()}
    torch_xla.sync()
    problems: list[str] = []
    computed = _compiled(forms, inputs) if compiled else _called(forms, inputs, problems)
    texts = {name: stablehlo(results) for name, results in computed.items()}
    for name, text in texts.items():
        problems += [f"{name}: {problem}" for problem in forms[name].problems_of_text(text)]
        if golden is not None and not is_golden(golden, name, text):
            problems.append(f"{name}: differs from its golden file; {WRITE}")
    torch_xla.sync()
    for name, results in computed.items():
        problems += [f"{name}: {problem}" for problem in forms[name].problems_of_numbers(results)]
    assert not problems, "\n\n".join(problems)
    return texts


Computed = dict[str, list[torch.Tensor]]
"""Results and gradients of forms by name."""


def _called(
    forms: Mapping[str, Form],
    inputs: Mapping[str, Mapping[str, torch.Tensor]],
    problems: list[str],
) -> Computed:
    computed: Computed = {}
    for name, form in forms.items():
        try:
            results = form.results(inputs[name])
            (grads,) = gradients([(form, inputs[name], results)])
        except Exception as error:  # the other forms are tried nevertheless
            problems.append(f"{name}: {type(error).__name__}: {error}")
        else:
            computed[name] = [*(result.detach() for result in results), *grads]
    return computed


def _compiled(
    forms: Mapping[str, Form], inputs: Mapping[str, Mapping[str, torch.Tensor]]
) -> Computed:
    calls = [(name, form.call, dict(form.keywords)) for name, form in forms.items()]

    def call_all(given: Mapping[str, Mapping[str, torch.Tensor]]) -> dict[str, Any]:
        return {name: call(**given[name], **keywords) for name, call, keywords in calls}

    torch._dynamo.reset()
    outputs = torch.compile(call_all, backend="aot_eager", fullgraph=True)(inputs)
    results = {
        name: list(output) if isinstance(output, tuple | list) else [output]
        for name, output in outputs.items()
    }
    grads = gradients([(form, inputs[name], results[name]) for name, form in forms.items()])
    return {
        name: [*(result.detach() for result in results[name]), *of_form]
        for name, of_form in zip(forms, grads, strict=True)
    }


def wave(*shape: int, dtype: torch.dtype = torch.float32, shift: float = 0.0) -> torch.Tensor:
    """Different numbers between -2 and 2, the same on every machine."""
    size = torch.Size(shape)
    places = torch.arange(size.numel(), dtype=torch.float64) + shift
    return (2 * torch.sin(places * 12.9898)).reshape(size).to(dtype)


def stablehlo(tensors: Sequence[torch.Tensor]) -> str:
    """The graph of tensors on the device, cleaned."""
    text = clean(Module.parse(xm.get_stablehlo(list(tensors)))).text
    # jaxlib before 0.10 writes two spaces in comparisons and before algorithms.
    return re.sub(r"(stablehlo\.compare|,|algorithm =)  (?=[A-Z])", r"\1 ", text)


def emitted(text: str) -> list[str]:
    """Composites of a program's own function, with operands, attributes and types."""
    main = re.search(r"func\.func (?:public )?@main.*?\n  }", text, re.DOTALL)
    assert main is not None
    calls = re.findall(r"stablehlo\.composite (\".*)", main.group())
    return [re.sub(r",? ?decomposition = @[\w.$\"]*", "", call) for call in calls]


def emitted_by(*tensors: torch.Tensor) -> list[str]:
    """Composites in the graph of tensors."""
    return emitted(stablehlo(tensors))


def umbra_composites(*tensors: torch.Tensor) -> list[str]:
    """Names of the composites of `umbra`, nested ones too, in the graph of tensors."""
    return re.findall(r'stablehlo.composite "umbra\.([^"]+)"', xm.get_stablehlo(list(tensors)))


WRITE = "COMPOSITES_WRITE_GOLDEN=1 pytest tests/vendor writes it"


def is_golden(folder: str, name: str, text: str) -> bool:
    """Compare text with its golden file, which is written first where the variable asks for it."""
    path = GOLDEN / folder / f"{name}.mlir"
    if os.environ.get("COMPOSITES_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return path.read_text() == text


def values_and_gradients(
    call: Callable[..., Any], device: str, tensors: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Results of a call, and the gradients of those tensors that can have one."""
    leaves = [t.to(device).requires_grad_(not _is_integer(t)) for t in tensors]
    results = call(*leaves)
    results = list(results) if isinstance(results, list | tuple) else [results]
    reached = [result for result in results if result.requires_grad]
    grads = [wave(*r.shape, dtype=r.dtype).to(device) for r in reached]
    trained = [leaf for leaf in leaves if leaf.requires_grad]
    found = torch.autograd.grad(reached, trained, grads) if reached else ()
    return [result.detach() for result in results], list(found)


def _is_integer(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())
