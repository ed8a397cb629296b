"""Python numbers in decompositions have stock's bits where XLA and LLVM optimize.

Without optimizations nothing computes with a constant, so this runs in processes of its own.
"""

from collections.abc import Callable

import pytest
from composites_testing.environment import full_level
from composites_testing.processes import Finished

# Each is a composite of its own. XLA turned division by a constant integer into multiplication.
FUNCTIONS = """
import torch, torch_xla
import composites

def bits(function):
    tensors = function()
    torch_xla._XLAC._xla_sync_multi(list(tensors), [], True, True)
    return [t.detach().cpu().view(torch.int32) for t in tensors]

FUNCTIONS = [
    lambda x, n: n / 3,
    lambda x, n: x / torch.full((), 7, device=x.device),
    lambda x, n: (x * 0.3).sum(0),
    lambda x, n: (x / 3).cumsum(0),
    lambda x, n: torch.where(n > 4, 3, 7) / x,
    lambda x, n: torch.addcdiv(x, x, n, value=0.3),
    lambda x, n: n.float() ** 3 / 7,
]
x = torch.linspace(-2, 2, 256).reshape(16, 16).to("xla")
inputs = x, torch.arange(1, 257).reshape(16, 16).to("xla")

def all_of(functions):
    return lambda: [function(*inputs) for function in functions]

stock = bits(all_of(FUNCTIONS))

def as_composite(number, function):
    def named(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return function(x, n)
    return composites.composite(f"acme.f{number}")(named)

wrapped = [as_composite(*numbered) for numbered in enumerate(FUNCTIONS)]
ours = bits(all_of(wrapped))
assert [torch.equal(o, s) for o, s in zip(ours, stock)] == [True] * len(stock)
print("same bits")
"""


@pytest.mark.exhaustive
def test_numbers_where_llvm_optimizes(python: Callable[..., Finished]) -> None:
    done = python(FUNCTIONS, **full_level())
    assert done.stdout == "same bits\n", done.stderr
