"""Versions of packages that are installed, and of those that they need."""

# Modules that are slow to import are imported where they are used: `composites --help` imports this
# module.


def installed(name: str) -> str | None:
    """The version of a package; None if it is not installed, or has metadata without a version."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name) or None
    except (PackageNotFoundError, KeyError):  # KeyError: metadata without a version
        return None


def requirements(package: str, *extras: str) -> dict[str, str]:
    """The packages that extras of an installed package need, with their versions. The empty extra
    is the package itself. None are known of a package that is not installed."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    needed: dict[str, str] = {}
    for text in (requires(package) or ()) if installed(package) else ():
        one = Requirement(text)
        marker = one.marker
        if "" in extras if marker is None else any(marker.evaluate({"extra": e}) for e in extras):
            versions = sorted(map(str, one.specifier), reverse=True)  # the lower end first
            needed[canonicalize_name(one.name)] = ",".join(versions)
    return needed
