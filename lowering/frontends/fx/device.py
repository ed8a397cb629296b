"""The device of traced tensors.

It is of a type that PyTorch knows and that no package registers any more. The process therefore
stays as it was: `torch.accelerator` is the user's, other packages may register their own device,
and any tensor on this device is a traced one. PyTorch has dispatch keys for it, for autograd and
for autocast too.
"""

import torch

DEVICE_TYPE = "lazy"


def device() -> torch.device:
    """The device of traced tensors."""
    return torch.device(DEVICE_TYPE, 0)
