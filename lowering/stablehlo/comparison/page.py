"""A comparison as a section of the page that `inspection` writes."""

from ..inspection.page import html_page, rendered
from ..module import Module
from .chart import comparison_chart
from .results import Comparison
from .table import NUMBER_HEADINGS, TEXT_HEADINGS, caption, cells


def comparison_page(module: Module, comparison: Comparison) -> str:
    """The page of `html_page`, with the comparison's table and picture before the data flow.

    All text from the module and of the kernels is escaped.
    """
    section = rendered(
        __package__,
        "section.html.j2",
        caption=caption(comparison),
        text_headings=TEXT_HEADINGS,
        number_headings=NUMBER_HEADINGS,
        rows=[(cells(row), row.problem) for row in comparison.calls],
        chart=comparison_chart(comparison),
    )
    return html_page(module, section=section)
