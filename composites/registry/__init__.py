"""The registry: from YAML text to frozen entries that have been checked against their operators.

yaml_text -> document -> validation (with operators, functions) -> model -> catalog
"""
