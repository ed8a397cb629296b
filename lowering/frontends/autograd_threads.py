"""The threads in which autograd computes gradients while a program is recorded."""

from contextlib import AbstractContextManager

import torch


def gradients_in_this_thread() -> AbstractContextManager[None]:
    """A context in which autograd computes gradients in the calling thread.

    PyTorch starts one thread for each device at the first backward of a process. A device that was
    registered later has none, and a backward on it is an internal error of PyTorch's.
    `torch.inference_mode` chooses threads too, so it must be left before.
    """
    return torch.autograd.set_multithreading_enabled(False)
