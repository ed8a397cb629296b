"""Interrupts and failures at any line of a change: it is complete or undone, and works again."""

import pytest
from composites_testing.processes import run_python

# One interrupt arrives at a line of this project, and another one a few calls later. Lines are
# counted in the thread that is to be interrupted. A signal that waits does not stop the tracing.
INTERRUPTING = """
import os, signal, sys
import torch, torch_xla, composites, lowering

ROOT = os.path.dirname(lowering.__file__)
HOMES = (os.path.dirname(composites.__file__), ROOT)
HANDLER = signal.default_int_handler
signal.signal(signal.SIGINT, HANDLER)  # a shell's background jobs ignore interrupts
count = at = 0
failing = False  # an exception in place of an interrupt, which nothing can make wait

def trace(frame, event, argument):
    global count
    if not frame.f_code.co_filename.startswith(HOMES):
        return None
    if failing and frame.f_code.co_filename.endswith("interrupts.py"):
        return None
    if event == "line":
        count += 1
        if failing and count == at:
            raise MemoryError("injected")
        if not failing and count in (at, at + 4):
            signal.raise_signal(signal.SIGINT)
    return trace

def again(after):
    calls = 0
    def profile(frame, event, argument):
        nonlocal calls
        calls += count >= at
        if calls == after:
            signal.raise_signal(signal.SIGINT)
    return profile

def interrupted(function, line, after):
    # Whether the function came to this line. It may end with an interrupt or with none.
    global count, at
    count, at = 0, line
    sys.setprofile(again(after) if after else None)
    sys.settrace(trace)
    try:
        try:
            function()
        finally:
            sys.settrace(None)
            sys.setprofile(None)
    except (KeyboardInterrupt, MemoryError):
        pass
    assert signal.getsignal(signal.SIGINT) is HANDLER, signal.getsignal(signal.SIGINT)
    return count >= line
"""

# Each line is tried in a child process, in which nothing was turned on before.
ENABLE = """
step = int(sys.argv[1])
# What changes the state of the process; the rest of what enable runs is the generator of hooks.
HOMES = tuple(os.path.join(ROOT, *path.split("/")) for path in (
    "activation.py", "requests.py", "interrupts.py", "import_hook.py", "installation",
    "frontends/torch_xla", "dispatch/autograd/compiled_calls.py",
))
MODELS = '''
class MLP:
    def forward(self, x):
        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return down_proj
'''
import lowering.activation as activation
import lowering.frontends.torch_xla.frontend, lowering.generated.ptxla
from torch.optim import adam
from lowering.dispatch import keys
NAMES = ("gelu", "layer_norm", "adamw", "cross_entropy_loss", "swiglu")
OPERATORS = ("aten::gelu", "aten::native_layer_norm", "aten::cross_entropy_loss")
activation.catalog()
# A module with a copy of a function that `swiglu` names, whose own module is imported before.
import importlib.util, tempfile
import transformers.models.llama.modeling_llama
with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
    file.write(MODELS)
spec = importlib.util.spec_from_file_location("transformers.models_of_a_test", file.name)
models = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)

def tables():
    shown = [torch._C._dispatch_dump_table(name) for name in OPERATORS]
    # Kernels of Python are shown with their place; those of this project are removed.
    return [[l for l in t.splitlines() if "lowering/" in l] for t in shown]

def state():
    functions = adam._single_tensor_adam, vars(models.MLP)["forward"]
    return tables(), *functions, list(sys.meta_path), torch.is_grad_enabled()

def child(line, after):
    global failing
    failing = after is None
    stock = state()
    assert stock[0] == [[], [], []]
    reached = interrupted(lambda: composites.enable(*NAMES), line, after)
    on = composites.active()
    composites.enable(*NAMES)
    everything = composites.active()
    assert on in ((), everything), on
    assert all(tables()), tables()
    assert hasattr(adam._single_tensor_adam, "__wrapped__")
    assert hasattr(models.MLP.forward, "__wrapped__")
    reached = interrupted(composites.disable, line, after) or reached
    composites.disable()
    assert state() == stock, (state(), stock)
    with composites.enabled("gelu"):
        assert composites.active()
    assert state() == stock
    return reached

def fails(line, after):
    pid = os.fork()
    if not pid:
        code = 2
        try:
            code = 0 if child(line, after) else 3
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

line, tried = 1, 0
while (code := fails(line, (0, 1, None, 7)[tried % 4])) != 3:
    assert code == 0, line
    line, tried = line + step, tried + 1
print(tried)
"""

CALL = """
step = int(sys.argv[1])
import torch_xla.core.xla_model as xm
from lowering.frontends.torch_xla import modes, value_guard
_XLAC = torch_xla._XLAC

@composites.composite("acme.twice")
def twice(x):
    with torch.no_grad():
        shift = x.detach() * 3
    return torch.nn.functional.gelu(x) * 2 + shift

def state():
    return (
        torch.is_grad_enabled(), torch.is_autocast_enabled("xla"), torch.get_autocast_dtype("xla"),
        _XLAC._get_xla_all_numbers_special_scalars(), _XLAC._get_use_eager_mode(),
        modes._EXCLUSIVE.locked(), value_guard.is_guarded(),
        torch._C._dispatch_tls_local_include_set(),
        torch._C._dispatch_tls_local_exclude_set(), torch._C._len_torch_dispatch_stack(),
    )

composites.enable("gelu", "layer_norm")
twice(torch.ones(3, device="xla"))
before = state()
line, reached, tried = 1, True, 0
while reached:
    x = torch.ones(tried % 50 + 1, tried + 1, device="xla", requires_grad=True)
    def call():
        y = torch.nn.functional.layer_norm(twice(x), x.shape[-1:])
        y.sum().backward()
    reached = interrupted(call, line, (0, 1, 7, 30)[tried % 4])
    assert str(state()) == str(before), (line, state(), before)
    x.grad = None
    y = twice(x)
    call()
    text = xm.get_stablehlo([y, x.grad])
    for name in ("acme.twice", "acme.twice_backward", "ptxla.gelu", "ptxla.layer_norm_backward"):
        assert f'"{name}"' in text or f"{name}" in text, (line, name)
    line, tried = line + step, tried + 1
print(tried)
"""


@pytest.mark.parametrize(
    ("changes", "calls"),
    [
        (1409, 797),
        pytest.param(701, 401, marks=pytest.mark.exhaustive),
        pytest.param(301, 199, marks=pytest.mark.exhaustive),
        pytest.param(19, 7, marks=pytest.mark.exhaustive),
    ],
)
def test_interrupts_and_failures_at_lines_that_far_apart(changes: int, calls: int) -> None:
    scripts = [
        INTERRUPTING + script.replace("sys.argv[1]", str(step))
        for script, step in ((ENABLE, changes), (CALL, calls))
    ]
    done = run_python(f"for script in {scripts!r}: exec(script, {{'__name__': 'script'}})")
    assert done.code == 0, done.stderr[-3000:]
    tried = [int(line) for line in done.stdout.splitlines()]
    assert len(tried) == 2
    assert min(tried) > 1
