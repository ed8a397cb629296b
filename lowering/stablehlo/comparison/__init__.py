"""`compare`: a kernel and the decomposition that it replaces, on the same operands.

distinct calls of a module (inspection)
    -> isolate    one call as small modules: its decomposition, and the call alone
    -> inputs     operands for it
    -> compare    runs decomposition, decomposition in f64 and kernel; difference, timing
    -> results    data and JSON
    -> table, chart, page
"""

from .chart import comparison_chart
from .compare import compare
from .page import comparison_page
from .results import ComparedCall, Comparison, Numbers
from .table import comparison_table

__all__ = [
    "ComparedCall",
    "Comparison",
    "Numbers",
    "compare",
    "comparison_chart",
    "comparison_page",
    "comparison_table",
]
