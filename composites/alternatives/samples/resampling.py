"""Calls of operators that give an image another size."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from composites.alternatives.samples.operands import Call, image

# Each size of an image, and to what it is resampled: by whole factors, and by others.
_WHOLE = (((4, 5), (8, 10)), ((6, 4), (18, 4)), ((3, 3), (12, 6)), ((2, 300), (4, 600)))
_SIZES = (*_WHOLE, ((7, 5), (10, 9)), ((9, 300), (5, 303)))


def upsample_nearest2d(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::upsample_nearest2d`."""
    for size, output in _WHOLE:
        yield (image(dtype, size), output), {}
    yield (image(dtype, (4, 4)), (8, 12), 2.0, 3.0), {}


def upsample_bilinear2d(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::upsample_bilinear2d`."""
    for size, output in _SIZES:
        for align_corners in (False, True):
            yield (image(dtype, size), output, align_corners), {}
    yield (image(dtype, (4, 4)), (8, 12), False, 2.0, 3.0), {}


def upsample_bilinear2d_by_whole_factors(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::upsample_bilinear2d`."""
    for size, output in _WHOLE:
        yield (image(dtype, size), output, False), {}
    yield (image(dtype, (4, 4)), (8, 12), False, 2.0, 3.0), {}


def upsample_bicubic2d(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::upsample_bicubic2d`."""
    for size, output in (((4, 5), (8, 10)), ((9, 5), (5, 9)), ((14, 14), (16, 16))):
        for align_corners in (False, True):
            yield (image(dtype, size), output, align_corners), {}
