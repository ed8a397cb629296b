"""The registry: from YAML text to frozen entries that are known to fit their operators.

yaml_text -> document -> validation (with operators, functions) -> model -> catalog
"""
