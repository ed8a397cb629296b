"""Registry to hooks: `source` writes their Python text, `loader` makes modules of such text."""
