"""`python -m composites.cli`: the same command line as `python -m composites`."""

from lowering.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
