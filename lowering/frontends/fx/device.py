"""The device of traced tensors.

The device has a type that PyTorch defines and that no package registers any more. The process
therefore stays as it was: `torch.accelerator` is the user's, other packages may register their own
device, and any tensor on this device is traced. PyTorch has dispatch keys for the device, also for
autograd and autocast.
"""

import torch

DEVICE_TYPE = "lazy"


def device() -> torch.device:
    """The device of traced tensors."""
    return torch.device(DEVICE_TYPE, 0)
