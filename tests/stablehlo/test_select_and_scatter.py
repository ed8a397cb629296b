"""expand_select_and_scatter has the bits of StableHLO's definition where XLA's own differ."""

import numpy as np
from composites_testing.cases import cases
from composites_testing.passes import DATA

from lowering.stablehlo import run
from lowering.stablehlo.passes.gradients import expand_select_and_scatter

WINDOW, LOW = (3, 2), (1, 0)  # `LOW`: padding before the first row and the first column


def defined(x: np.ndarray, source: np.ndarray) -> np.ndarray:
    """The gradient of max pooling, element by element: a window's first greatest element, or the
    element after its last NaN, takes the window's number.

    https://openxla.org/stablehlo/spec#select_and_scatter
    """
    gradient = np.zeros_like(x)
    for window in np.ndindex(*source.shape):
        selected = None
        for offset in np.ndindex(*WINDOW):
            at = tuple(np.add(window, offset) - LOW)
            if any(not 0 <= index < size for index, size in zip(at, x.shape, strict=True)):
                continue
            if selected is None or not x[selected] >= x[at]:
                selected = at
        if selected is not None:
            gradient[selected] += source[window]
    return gradient


def test_uneven_windows() -> None:
    file = DATA.parent / "passes" / "expand_select_and_scatter.mlir"
    (case,) = (c for c in cases(file.read_text("utf-8")) if c.title.startswith("uneven"))
    random = np.random.default_rng(0)
    x = np.round(random.standard_normal((9, 9)).astype(np.float32))
    for value, share in ((np.nan, 0.2), (-np.inf, 0.1), (np.inf, 0.1)):
        x[random.random(x.shape) < share] = value
    source = random.standard_normal((8, 9)).astype(np.float32)
    (gradient,) = run(expand_select_and_scatter(case.module()), x[None, None], source[None, None])
    assert gradient[0, 0].tobytes() == defined(x, source).tobytes()
