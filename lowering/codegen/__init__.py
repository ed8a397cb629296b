"""From a registry to hooks: `source` writes Python text, and `loader` makes modules from it."""
