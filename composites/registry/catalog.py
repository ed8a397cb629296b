"""All registries of a process: from the project, from files, and from installed packages.

Vendor registries come before the built-in registry, and the files of XLA_COMPOSITE_REGISTRY come
before installed packages. A vendor entry shadows a built-in entry of the same name.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path

from composites.errors import AllowlistError, Problem, RegistryError, did_you_mean
from composites.registry.alternatives import mistakes_in
from composites.registry.model import Composite, Registry, split_version
from composites.registry.packages import Announced, LeftOut, announced, builtin_registry_path
from composites.registry.validation import load_registry
from composites.settings import registry_files, warn_of_unknown_variables


@dataclass(frozen=True, slots=True)
class Catalog:
    """The registries, in the order in which their entries claim calls; the built-in registry is
    last."""

    registries: tuple[Registry, ...]
    left_out: tuple[LeftOut, ...] = ()
    """Installed packages whose registry cannot be used."""

    def __post_init__(self) -> None:
        accepted: list[Registry] = []
        for registry in sorted(self.registries, key=lambda r: not r.builtin):
            if problems := _clashes(registry, accepted):
                raise RegistryError(problems)
            accepted.append(registry)

    def warnings(self) -> Iterator[str]:
        """Yield warnings that the user should read before turning entries on."""
        yield from map(str, self.left_out)
        for registry in self.registries:
            yield from map(str, registry.outdated)
        packages: dict[str, dict[str, str]] = {}
        for registry in self.registries:
            if registry.package is not None:
                sources = packages.setdefault(registry.namespace, {})
                sources.setdefault(registry.package, registry.source)
        for namespace, sources in packages.items():
            if len(sources) > 1:
                named = " and ".join(f"{name} ({source})" for name, source in sources.items())
                yield (
                    f"the packages {named} use one namespace, {namespace!r}; {namespace}.* means"
                    " the entries of both"
                )

    def __iter__(self) -> Iterator[Composite]:
        for registry in self.registries:
            yield from registry.composites

    def shadowed(self, entry: Composite) -> bool:
        """Return True if a vendor has an entry with the name of this built-in entry."""
        return any(entry in r.composites for r in self.registries if r.builtin) and any(
            r.get(entry.name) for r in self.registries if not r.builtin
        )

    def backward_of(self, entry: Composite) -> Composite | None:
        """Return the entry of the same registry that is the backward of `entry`."""
        candidates = (r.backward_of(entry) for r in self.registries if entry in r.composites)
        return next(candidates, None)

    def forward_of(self, entry: Composite) -> Composite | None:
        """Return the first entry of the same registry whose backward is `entry`."""
        return next((other for other in self if self.backward_of(other) == entry), None)

    def label(self, entry: Composite) -> str:
        """Return the name of an entry for XLA_COMPOSITE_OP, with the version if the plain name
        means another version."""
        return entry.qualified if self.highest((entry,)) else entry.identity

    def highest(self, entries: Iterable[Composite]) -> tuple[Composite, ...]:
        """Return the entries of which the catalog has no higher version."""
        versions: dict[str, int] = {}
        for entry in self:
            before = versions.get(entry.qualified, entry.version)
            versions[entry.qualified] = max(before, entry.version)
        return tuple(e for e in entries if versions.get(e.qualified, e.version) == e.version)

    def find(self, name: str) -> tuple[Composite, ...]:
        """Return the entries that a name, qualified or not, refers to.

        The name can be the name of an entry, of a composite that entries produce, or of a group of
        entries. `acme.gelu@1` means exactly this version; a name without a number means the highest
        version of each entry.

        Raises:
            AllowlistError: no registry has the entry or version, or several vendors have it and
                `name` has no namespace.
        """
        plain, version = split_version(name)
        entries = self._named(plain)
        if version is None:
            return self.highest(entries)
        exact = tuple(entry for entry in entries if entry.version == version)
        if not exact:
            numbers = sorted({entry.version for entry in entries})
            raise AllowlistError(
                f"there is no version {version} of {plain!r}; write"
                f" {' or '.join(f'{plain}@{number}' for number in numbers)}"
            )
        return exact

    def versions(self, name: str) -> tuple[Composite, ...]:
        """Return all versions of the entries that a name refers to, or the version in the name."""
        plain, version = split_version(name)
        return self._named(plain) if version is None else self.find(name)

    def _named(self, name: str) -> tuple[Composite, ...]:
        exact = tuple(e for e in self if name in (e.qualified, e.composite_name))
        if exact:
            return exact
        owners = [r for r in self.registries if r.named(name)]
        vendors = [r for r in owners if not r.builtin]
        if len(vendors) > 1:
            choices = " or ".join(f"{r.namespace}.{name} ({r.source})" for r in vendors)
            raise AllowlistError(f"{name!r} is defined by more than one vendor; write {choices}")
        if not owners:
            raise AllowlistError(self._unknown(name))
        return (vendors or owners)[0].named(name)

    def namespace(self, namespace: str) -> tuple[Composite, ...]:
        """Return all entries of a namespace.

        Raises:
            AllowlistError: there is no such namespace.
        """
        entries = tuple(entry for entry in self if entry.namespace == namespace)
        if not entries:
            namespaces = sorted({registry.namespace for registry in self.registries})
            raise AllowlistError(
                f"there is no namespace {namespace!r}{did_you_mean(namespace, namespaces)}"
                f" (known: {', '.join(namespaces)}){self._perhaps_left_out()}"
            )
        return entries

    def _unknown(self, name: str) -> str:
        names = [entry.name for entry in self] + [entry.qualified for entry in self]
        names += [entry.group for entry in self if entry.group is not None]
        hint = did_you_mean(name, names)
        return (
            f"there is no composite {name!r}{hint}{'' if hint else ';'}"
            f" `composites list` prints them all{self._perhaps_left_out()}"
        )

    def _perhaps_left_out(self) -> str:
        """Describe the packages that may have an unknown name, for the message about the name."""
        return "".join(f"\n{left_out}" for left_out in self.left_out)


@cache
def builtin_registry() -> Registry:
    """Return the registry that comes with this package. It is read once per process."""
    return replace(load_registry(builtin_registry_path()), builtin=True)


def load_file(path: str | Path) -> Registry:
    """Load a file that the user names. The file may name operators of installed packages, which
    register the operators when their registries are read.

    Raises:
        RegistryError: with every problem of the file.
    """
    tuple(announced())
    return load_registry(path)


def load_catalog(files: Iterable[str] | None = None, *, in_place: bool = False) -> Catalog:
    """Load every registry of this process.

    A problem in a file is an error, because the user named the file. A registry of an installed
    package that has a problem is left out, and the catalog records the reason.

    Args:
        files: vendor files; by default the files that XLA_COMPOSITE_REGISTRY names.
        in_place: each file replaces the registry with the same namespace. This is for editing the
            registry of an installed package, or a copy of it.

    Raises:
        RegistryError: with the problems of all files.
    """
    warn_of_unknown_variables()
    packages = tuple(announced())  # first: packages register operators that files may name
    named = _load_files(registry_files() if files is None else files)
    paths = {Path(registry.source).resolve() for registry in named}
    namespaces = {registry.namespace for registry in named} if in_place else set()
    builtin = builtin_registry()
    # Without `in_place`, naming the built-in registry is a mistake, which `Catalog` reports.
    last = () if builtin.namespace in namespaces else (builtin,)
    installed: list[Registry] = []
    left_out: list[LeftOut] = []
    for package in packages:
        if isinstance(package, LeftOut):
            left_out.append(package)
        elif package.path.resolve() not in paths and package.namespace not in namespaces:
            paths.add(package.path.resolve())
            loaded = _load_announced(package, (*last, *installed))
            if isinstance(loaded, LeftOut):
                left_out.append(loaded)
            else:
                installed.append(loaded)
    while True:
        registries, problems = with_additions((*named, *installed, *last))
        wrong = {registry.source: registry for registry in registries if problems[registry.source]}
        if own_files := [registry for registry in wrong.values() if registry.package is None]:
            raise RegistryError([p for registry in own_files for p in problems[registry.source]])
        if not wrong:
            return Catalog(registries, tuple(left_out))
        # Leave these packages out and try again: alternatives for their entries become problems.
        for source, registry in wrong.items():
            left_out.append(LeftOut(registry.package or "", str(RegistryError(problems[source]))))
        installed = [registry for registry in installed if registry.source not in wrong]


def with_additions(
    registries: tuple[Registry, ...],
) -> tuple[tuple[Registry, ...], Mapping[str, list[Problem]]]:
    """Add to entries the alternatives that other registries have for them. Return the registries,
    and the problems of the added alternatives by the source of their registry. An added alternative
    is tried before the entry's own alternatives."""
    problems: dict[str, list[Problem]] = {registry.source: [] for registry in registries}
    entries = {entry.identity: entry for r in registries for entry in r.composites}
    for registry in registries:
        to_choose = (kernel for kernel in registry.kernels if kernel.platform is None)
        for name, group in groupby(to_choose, lambda kernel: (kernel.composite, kernel.version)):
            kernels = tuple(group)
            foreign = [e for r in registries if r is not registry for e in r.composites]
            named = [e for e in foreign if name in ((e.qualified, None), (e.qualified, e.version))]
            if not named:
                written = name[0] if name[1] is None else f"{name[0]}@{name[1]}"
                hint = did_you_mean(written, [entry.qualified for entry in foreign])
                message = f"kernels: {written}: there is no such entry{hint}"
                problems[registry.source].append(kernels[0].location.problem(message))
            for entry in named:
                before = entries[entry.identity]
                problems[registry.source] += [
                    kernel.location.problem(
                        f"kernels: {kernel.composite}: {kernel.name}: {mistake.message}"
                    )
                    for kernel in kernels
                    for mistake in mistakes_in(kernel, entry, before.alternatives, is_added=True)
                ]
                entries[entry.identity] = replace(before, kernels=(*kernels, *before.kernels))
    merged = tuple(
        replace(r, composites=tuple(entries[e.identity] for e in r.composites)) for r in registries
    )
    return merged, problems


def _load_files(files: Iterable[str]) -> tuple[Registry, ...]:
    """Load each file once, even if it is named several times or by different paths."""
    once = {Path(file).resolve(): file for file in reversed(tuple(files))}
    problems: list[Problem] = []
    registries: list[Registry] = []
    for file in reversed(once.values()):
        try:
            registries.append(load_registry(file))
        except RegistryError as error:
            problems.extend(error.problems)
    if problems:
        raise RegistryError(problems)
    return tuple(registries)


def _load_announced(announced: Announced, accepted: Iterable[Registry]) -> Registry | LeftOut:
    try:
        registry = replace(load_registry(announced.path), package=announced.package)
    except RegistryError as error:
        return LeftOut(announced.package, str(error))
    except (Exception, SystemExit) as error:  # raised by a vendor's module that an entry names
        return LeftOut(announced.package, f"{announced.path}: {type(error).__name__}: {error}")
    problems = _clashes(registry, accepted)
    return LeftOut(announced.package, str(RegistryError(problems))) if problems else registry


def _clashes(registry: Registry, accepted: Iterable[Registry]) -> list[Problem]:
    """Return a problem for each entry that an accepted registry has already defined."""
    # Other registries may not add versions to entries of the built-in registry.
    sources = {
        entry.qualified if other.builtin or registry.builtin else entry.identity: other.source
        for other in accepted
        for entry in other.composites
    }
    return [
        entry.location.problem(
            f"{entry.qualified} is already defined in {source}; use your own namespace"
            + ("" if entry.qualified in sources else ", or another `version`"),
            entry.name,
        )
        for entry in registry.composites
        if (source := sources.get(entry.qualified) or sources.get(entry.identity))
    ]
