"""Reports about a module: composites (`report`), casts (`cast_report`), tables, a page (`page`)."""

from .cast_report import Cast, CastReport, casts
from .page import html_page
from .report import CompositeReport, Report, composite_count, inspect
from .table import cast_table, composite_table

__all__ = [
    "Cast",
    "CastReport",
    "CompositeReport",
    "Report",
    "cast_table",
    "casts",
    "composite_count",
    "composite_table",
    "html_page",
    "inspect",
]
