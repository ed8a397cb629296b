"""A comparison as a section of the page that `inspection` writes."""

from importlib.resources import files

from ..inspection.page import html_page
from ..module import Module
from .chart import comparison_chart, environment
from .results import Comparison
from .table import NUMBER_HEADINGS, TEXT_HEADINGS, caption, cells


def comparison_page(module: Module, comparison: Comparison) -> str:
    """The page of `html_page`, with the comparison's table and picture before the data flow.

    All text from the module and of the kernels is escaped.
    """
    template = files(__package__).joinpath("section.html.j2").read_text(encoding="utf-8")
    section = (
        environment()
        .from_string(template)
        .render(
            caption=caption(comparison),
            text_headings=TEXT_HEADINGS,
            number_headings=NUMBER_HEADINGS,
            rows=[(cells(row), row.problem) for row in comparison.calls],
            chart=comparison_chart(comparison),
        )
    )
    return html_page(module, section=section)
