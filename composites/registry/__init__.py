"""The registry: from YAML text to frozen entries, checked against their operators.

yaml_text -> document, pairs (reading) -> validation (with operators, signatures,
conditions) -> model -> catalog
"""
