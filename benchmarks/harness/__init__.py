"""The parts that every benchmark is made of.

- `timing`: sides that take turns in one process, ratios with quartiles, and bars.
- `processes` and `memory`: measurements in processes of their own.
- `runs`: the options of a command, the cases that it measures, and files of what is measured.
- `pages`: tables, and pages in Markdown.

A script of benchmarks/ has its cases as data, a function that measures one, and the table.
"""
