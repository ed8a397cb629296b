"""Enumerations of PyTorch's C++ library, which operators take as integers.

They are plain integers, because they become attributes of composites without conversion. This
module imports neither torch nor JAX: decompositions and rules in both use it.
"""

NO_REDUCTION, MEAN, SUM = 0, 1, 2
"""`at::Reduction`, the argument `reduction` of losses (ATen/core/Reduction.h)."""

NEAREST, BICUBIC = 1, 2
"""`GridSamplerInterpolation` (ATen/native/GridSamplerUtils.h); 0 is bilinear."""

ZEROS, REFLECTION = 0, 2
"""`GridSamplerPadding` (ATen/native/GridSamplerUtils.h); 1 is the border."""
