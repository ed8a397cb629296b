"""What is in a module: numbers (`report`), a terminal table (`table`), a page with a graph."""

from .page import html_page
from .report import CompositeReport, Report, composite_count, inspect
from .table import composite_table

__all__ = [
    "CompositeReport",
    "Report",
    "composite_count",
    "composite_table",
    "html_page",
    "inspect",
]
