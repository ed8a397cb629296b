"""Calls that vendors' composites stand for: their text in StableHLO, and the CPU's numbers.

tests/vendor/forms has tables of such calls. Golden files are the StableHLO of small calls, cleaned.
COMPOSITES_WRITE_GOLDEN=1 writes them:

    COMPOSITES_WRITE_GOLDEN=1 pytest tests/vendor
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import yaml

from lowering.stablehlo import Module, clean

VENDOR = Path(__file__).parents[2] / "vendor"
GOLDEN = VENDOR / "golden"
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}

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
    """The dtype of the inputs that are shapes."""
    keywords: Mapping[str, Any]

    def tensors(self, device: str) -> dict[str, torch.Tensor]:
        """The inputs; on the CPU, bf16 is computed in f32."""
        tensors = {}
        for number, (name, described) in enumerate(self.inputs.items()):
            if isinstance(described, tuple):
                tensor = wave(*described, dtype=self.dtype, shift=number)
            else:
                tensor = described.clone()
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
        for number, (actual, reference) in enumerate(zip(computed, expected, strict=True)):
            largest = float(reference.detach().abs().max()) if reference.numel() else 0.0
            tolerance = 6e-2 if self.dtype == torch.bfloat16 else 1e-5
            atol = tolerance * max(1.0, largest) if reference.is_floating_point() else 0
            try:
                mine = actual.detach().cpu().to(reference.dtype)
                torch.testing.assert_close(mine, reference.detach(), rtol=0, atol=atol)
            except AssertionError as error:
                yield f"result {number}: {error}"


def read_forms(file: str, namespace: str = "", **named: Any) -> dict[str, dict[str, Form]]:
    """The forms of each section of a file in tests/vendor/forms, with functions and tensors."""
    text = (VENDOR / "forms" / file).read_text(encoding="utf-8")
    return {
        section: {name: _read_form(row, namespace, named) for name, row in rows.items()}
        for section, rows in yaml.safe_load(text).items()
    }


def _read_form(row: Mapping[str, Any], namespace: str, named: Mapping[str, Any]) -> Form:
    inputs = {name: _read_tensor(described, named) for name, described in row["tensors"].items()}
    options = row.get("with", {})
    return Form(
        call=named.get(row["call"]) or _function(row["call"]),
        inputs=inputs,
        emits=tuple(namespace + name for name in row.get("emits", ())),
        inside=row.get("inside", 0),
        trained=tuple(row.get("trained", ())),
        dtype=DTYPES[row.get("dtype", "f32")],
        keywords={n: DTYPES.get(v, v) if n.endswith("dtype") else v for n, v in options.items()},
    )


def _read_tensor(described: Any, named: Mapping[str, Any]) -> torch.Tensor | tuple[int, ...]:
    if isinstance(described, str):
        tensor: torch.Tensor = named[described]
        return tensor
    if isinstance(described, dict):
        ((kind, numbers),) = described.items()
        if kind in named:
            return named[kind](*numbers)
        return torch.tensor(numbers, dtype=getattr(torch, kind))
    return tuple(described)


def _function(name: str) -> Callable[..., Any]:
    """A function of torch, or of a module that a registry is beside."""
    module, _, function = name.partition(".")
    if module in ("F", "torch"):
        loaded: Callable[..., Any] = getattr(
            torch.nn.functional if module == "F" else torch, function
        )
        return loaded
    return Later(module, function)


@dataclass(frozen=True)
class Later:
    """A function of a module that can be imported when it is called."""

    module: str
    name: str

    def now(self) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(import_module(self.module), self.name)
        return function

    def __call__(self, **operands: Any) -> Any:
        return self.now()(**operands)


Called = tuple[Form, Mapping[str, torch.Tensor], Sequence[torch.Tensor]]
"""A form, its inputs and its results."""


def gradients(called: Sequence[Called]) -> list[list[torch.Tensor]]:
    """The gradients of each form's first result, for its trained inputs."""
    trained = [call for call in called if call[0].trained]
    first = [results[0] for _, _, results in trained]
    leaves = [tensors[name] for form, tensors, _ in trained for name in form.trained]
    waves = [wave(*result.shape).to(result) for result in first]
    grads = iter(torch.autograd.grad(first, leaves, waves) if first else ())
    return [[next(grads) for _ in form.trained] for form, _, _ in called]


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
    forms: Mapping[str, Form], inputs: Mapping[str, Mapping[str, torch.Tensor]], problems: list[str]
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
    functions = {
        name: form.call.now() if isinstance(form.call, Later) else form.call
        for name, form in forms.items()
    }
    calls = [(name, functions[name], dict(form.keywords)) for name, form in forms.items()]

    def call_all(operands: Mapping[str, Mapping[str, torch.Tensor]]) -> dict[str, Any]:
        return {name: call(**operands[name], **keywords) for name, call, keywords in calls}

    torch._dynamo.reset()
    outputs = torch.compile(call_all, backend="aot_eager", fullgraph=True)(inputs)
    results = {
        name: list(output) if isinstance(output, tuple | list) else [output]
        for name, output in outputs.items()
    }
    grads = gradients([(form, inputs[name], results[name]) for name, form in forms.items()])
    return {
        name: [*(result.detach() for result in results[name]), *gradients_of_form]
        for name, gradients_of_form in zip(forms, grads, strict=True)
    }


def wave(*shape: int, dtype: torch.dtype = torch.float32, shift: float = 0.0) -> torch.Tensor:
    """Different numbers between -2 and 2, the same on every machine."""
    size = torch.Size(shape)
    positions = torch.arange(size.numel(), dtype=torch.float64) + shift
    return (2 * torch.sin(positions * 12.9898)).reshape(size).to(dtype)


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
    trained_grads = torch.autograd.grad(reached, trained, grads) if reached else ()
    return [result.detach() for result in results], list(trained_grads)


def _is_integer(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())
