"""The devices of this machine."""

import jax

HAS_GPU = any(device.platform == "gpu" for device in jax.devices())
"""True if there is a GPU that jax can use."""
