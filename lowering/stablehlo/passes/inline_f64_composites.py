"""inline_f64_composites: inline composites with operands or results in f64.

IREE 3.13 inlines composites too. It narrows f64 to f32, and then refuses a program in which two
composites read results in f64 and i64 of another one, as the scale and the zero point that PT2E
chooses.
"""

from ..composites import composite_name, find_composites
from ..data_movement import element_type
from ..module import Module
from .decompose import decompose


def inline_f64_composites(module: Module) -> Module:
    """Inline all composites with the name of one that has f64."""
    names = {
        composite_name(composite)
        for composite in find_composites(module.ir)
        if "f64" in map(element_type, (*composite.operands, *composite.results))
    }
    return decompose(module, only=sorted(names)) if names else module
