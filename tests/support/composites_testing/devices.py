"""What this machine has."""

import jax

HAS_GPU = any(device.platform == "gpu" for device in jax.devices())
"""Whether there is a GPU that jax can use."""
