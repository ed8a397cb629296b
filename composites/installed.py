"""Versions of installed packages and of their requirements."""

# Slow modules are imported inside functions, because `composites --help` imports this module.


def installed(name: str) -> str | None:
    """Return the version of a package; None if it is not installed or its metadata has none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name) or None
    except (PackageNotFoundError, KeyError):  # KeyError: metadata without a version
        return None


def requirements(package: str, *extras: str) -> dict[str, str]:
    """Return the packages that extras of a package need, with their versions. The empty extra is
    the package itself. The result is empty if the package is not installed."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    needed: dict[str, str] = {}
    for text in (requires(package) or ()) if installed(package) else ():
        requirement = Requirement(text)
        marker = requirement.marker
        if "" in extras if marker is None else any(marker.evaluate({"extra": e}) for e in extras):
            versions = sorted(map(str, requirement.specifier), reverse=True)  # lower bound first
            needed[canonicalize_name(requirement.name)] = ",".join(versions)
    return needed
