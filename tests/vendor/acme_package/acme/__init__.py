"""A vendor's package: a registry and the decompositions it names."""

from importlib.resources import files


def registry() -> str:
    """The entry point `composites.registries` calls this for the path of the registry."""
    return str(files("acme").joinpath("acme.yaml"))
