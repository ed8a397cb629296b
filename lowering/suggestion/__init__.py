"""What a step is made of outside composites, and a draft of a registry that catches it."""
