"""`python -m composites`: the command line."""

from composites.cli import main

if __name__ == "__main__":
    main()
