"""The parts of a step outside composites, and a draft of a registry that catches them."""
