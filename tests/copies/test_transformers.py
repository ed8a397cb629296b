"""Every copy in transformers that an entry catches computes what the named function does."""

import json

import pytest
from composites_testing.processes import run_python

MODELS = """
import importlib
import json
import pkgutil
import sys
import torch
import transformers.models
from torch import nn
from composites.functions import find_function
from composites.registry.catalog import load_catalog
from lowering.copies.codes import find_spec
from lowering.copies.search import Search

NAMES = ("rms_norm", "gemma_rms_norm", "rotary_embedding", "swiglu")
entries = [e for e in load_catalog() if e.copies and e.composite in NAMES]

def random(*shape, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype).requires_grad_()

def module(owner, entry, dtype):
    # The class itself, with what the function reads of it. Each class has other arguments.
    made = owner.__new__(owner)
    nn.Module.__init__(made)
    if entry.composite in ("rms_norm", "gemma_rms_norm"):
        made.weight = nn.Parameter(random(8, seed=9, dtype=dtype).detach())
        made.variance_epsilon = made.eps = 1e-3
        return made
    torch.manual_seed(0)
    made.gate_proj, made.up_proj = (nn.Linear(8, 6, dtype=dtype) for _ in range(2))
    made.down_proj, made.act_fn = nn.Linear(6, 8, dtype=dtype), nn.SiLU()
    return made

def arguments(entry, dtype):
    if entry.name == "rotary_embedding_vision":
        shapes = (3, 4, 8), (3, 2, 8), (3, 8), (3, 8)
    elif entry.composite == "rotary_embedding":
        shapes = (2, 4, 3, 8), (2, 2, 3, 8), (2, 3, 8), (2, 3, 8)
    else:
        shapes = ((2, 3, 8),)
    return [random(*s, seed=n, dtype=dtype) for n, s in enumerate(shapes)]

def composed(entry):
    # What the composite's decomposition computes of a call, through the entry's adapter.
    adapt, decomposition = find_function(entry.adapt), find_function(entry.decomposition.target)
    return lambda *arguments: adapt(decomposition, *arguments)

def outcome(function, target, entry, dtype):
    path = target.partition(":")[2].split(".")
    owner = vars(sys.modules[target.partition(":")[0]]).get(path[0])
    inputs = arguments(entry, dtype)
    made = module(owner, entry, dtype) if len(path) == 2 else None
    leaves = inputs + ([] if made is None else list(made.parameters()))
    results = function(*([] if made is None else [made]), *inputs)
    results = results if isinstance(results, tuple) else (results,)
    sums = [r.float().square().sum() for r in results]
    gradients = torch.autograd.grad(sums, leaves, allow_unused=True)
    return [*results, *gradients]

def same(first, second):
    return len(first) == len(second) and all(
        a is b is None or a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(first, second)
    )

def fits(copy, entry, dtype):
    function = find_function(copy)
    actual = outcome(function, copy, entry, dtype)
    named = [outcome(find_function(t), t, entry, dtype) for t in entry.functions]
    if not any(same(actual, other) for other in named):
        return False
    if entry.adapt is None:  # the decomposition is the function's own body
        return True
    return same(actual, outcome(composed(entry), copy, entry, dtype))

search, copies = Search(entries), []
for model in pkgutil.iter_modules(transformers.models.__path__):
    name = f"transformers.models.{model.name}.modeling_{model.name}"
    if find_spec(name) is not None:
        try:
            copies += search.in_module(importlib.import_module(name))
        except ModuleNotFoundError:  # of a package that the model needs
            continue
counts = dict.fromkeys((e.name for e in entries), 0)
wrong = []
for copy in copies:
    (entry,) = copy.entries
    counts[entry.name] += 1
    for dtype in (torch.float32, torch.bfloat16):
        if not fits(copy.target, entry, dtype):
            wrong.append((copy.target, entry.name, dtype))
assert not wrong, wrong
targets = {copy.target for copy in copies}
for other in (
    "qwen4_exp.modeling_qwen4_exp:Qwen4ExpTextRMSNorm.forward",  # with another `_norm`
    "cohere.modeling_cohere:apply_rotary_pos_emb",
    "nanochat.modeling_nanochat:apply_rotary_pos_emb",
):
    importlib.import_module(f"transformers.models.{other.partition(':')[0]}")
    assert not any(target.endswith(other) for target in targets), other
print(json.dumps(counts))
"""


@pytest.mark.exhaustive
def test_every_copy_computes_what_the_named_function_does() -> None:
    lines = run_python(MODELS).succeeded().stdout.splitlines()
    counts = json.loads(lines[-1])  # transformers prints errors first
    # Those of transformers 5.23; other versions have others.
    assert counts["llama_rms_norm"] >= 100
    assert counts["gemma_rms_norm"] >= 12
    assert counts["swiglu"] >= 100
    assert counts["rotary_embedding"] >= 100
    assert min(counts.values()) >= 5
