"""The device of traced tensors."""

from __future__ import annotations

from functools import cache

import torch

from composites import torch_internals
from composites.errors import MissingPackageError, installing

DEVICE_TYPE = "composites"
_UNCLAIMED = "privateuseone"


@cache
def device() -> torch.device:
    """The device of traced tensors. The first call registers it with PyTorch, for the life of the
    process.

    Raises:
        MissingPackageError: this PyTorch has no backends in Python, or another package has
            registered its device.
    """
    named = torch_internals.backend_outside_pytorch()
    if named not in (_UNCLAIMED, DEVICE_TYPE):
        raise MissingPackageError(
            f"a package of this process, such as torchax or torch_tpu, has registered the device"
            f" {named!r}, and PyTorch has room for one such device; export in a process that does"
            " not import that package"
        )
    if not torch_internals.register_python_backend(DEVICE_TYPE):
        raise MissingPackageError(
            "frontend='fx', which exports take where torch_xla is not installed, needs a PyTorch in"
            " which a backend can be written in Python, which torch"
            f" {torch.__version__} is not; {installing('torch-xla')},"
            " or '.[torch]' for PyTorch 2.10 to 2.15"
        )
    return torch.device(DEVICE_TYPE, 0)
