"""PyTorch decompositions."""

import math

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError


def gelu_tanh(self, *, approximate="none"):
    inner = math.sqrt(2 / math.pi) * (self + 0.044715 * self * self * self)
    return 0.5 * self * (1 + torch.tanh(inner))


def recursive(self, *, approximate="none"):
    return torch.nn.functional.gelu(self, approximate=approximate) * 2


def softmax_samples(self, *, approximate="none"):
    return self * torch.softmax(self, -1)


def wrong_shape(self, *, approximate="none"):
    return self.sum()


def fails(self, *, approximate="none"):
    return self.no_such_method()


def branches(self, *, approximate="none"):
    return self if self.sum() > 0 else -self


def carries_data(self, *, approximate="none"):
    return self * torch.tensor([1.0, 2.0, 3.0], device=self.device)


def prints(self, *, approximate="none"):
    print(self)
    return self.cpu().to(self.device)


def square(self: Tensor) -> Tensor:
    return self * self


def to_square(composite, self):
    return composite(self)


def slope(self: Tensor) -> Tensor:
    return self * 2


def to_slope(composite, grad_output, self):
    if self.dim() == 1:
        raise UnsupportedCallError("vectors take the stock gradient")
    return composite(self) * grad_output
