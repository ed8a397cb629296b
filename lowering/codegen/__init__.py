"""From a registry to hooks: `source` writes Python text, and `loader` turns it into modules."""
