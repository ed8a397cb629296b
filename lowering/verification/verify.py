"""`verify`: run each subject in each dtype, and report problems."""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from composites.element_types import TABLE
from composites.errors import CompositesError, LoweringError, UnusableFunctionError
from composites.functions import import_module
from composites.registry.alternatives import check_functions
from composites.registry.catalog import Catalog
from composites.registry.model import Composite, Kernel
from composites.registry.operators import find_operator
from lowering import activation
from lowering.dispatch.statistics import Statistics
from lowering.frontends.protocols import Frontend
from lowering.sample_calls import NoCalls, Sample
from lowering.stablehlo.composites import find_composites, fingerprint, signature
from lowering.verification import runs
from lowering.verification.judgement import Outcomes, greatest, judge
from lowering.verification.results import Check, Finding, Row, Unclaimed
from lowering.verification.runs import Raised, Run, Values
from lowering.verification.samples import DATABASE, Samples, chosen, sources, without_gradients
from lowering.verification.subjects import Subject
from lowering.verification.tolerances import accepted_error

DTYPES = ("f32", "bf16")
"""The element types that are verified by default."""
COUNT = 8
"""The number of samples of an entry that are run in each dtype."""
_MORE = 4
"""The factor for the number of samples that are tried for an alternative, which may take few."""
_TWICE = 2
"""The number of samples that are called a second time."""


def element_types(subject: Subject, chosen: Sequence[str]) -> tuple[str, ...]:
    """The chosen element types that the entry's conditions allow; if there are none, the first
    element type that the conditions allow."""
    narrowed = subject.alternative.when.dtypes if subject.alternative is not None else ()
    allowed = narrowed or subject.entry.when.dtypes
    fitting = tuple(name for name in chosen if not allowed or name in allowed)
    if fitting:
        return fitting
    listed = {type_.name for type_ in TABLE}
    return tuple(name for name in allowed if name in listed)[:1]


def verify(
    subject: Subject, catalog: Catalog, dtypes: Sequence[str] = DTYPES, count: int = COUNT
) -> tuple[Row, ...]:
    """Run one subject in each dtype.

    Raises:
        UnusableFunctionError: the function that yields samples cannot be used.
        MissingPackageError: no frontend is installed.
    """
    frontend = activation.backend().frontend
    rows: list[Row] = []
    with activation.all_off(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns about samples
        for dtype in element_types(subject, dtypes):
            began = time.monotonic()
            row = _Verifier(subject, catalog, frontend, dtype, count).row()
            rows.append(replace(row, seconds=time.monotonic() - began))
    return _with_claims(subject.entry, rows) if subject.alternative is None else tuple(rows)


def _with_claims(entry: Composite, rows: list[Row]) -> tuple[Row, ...]:
    """Add a finding about all dtypes: no call was claimed, or all were despite conditions."""
    claimed = sum(row.claimed for row in rows)
    unclaimed = [reason for row in rows for reason in row.unclaimed]
    finding = None
    if not claimed and unclaimed:
        calls = sum(reason.calls for reason in unclaimed)
        most = max(unclaimed, key=lambda reason: reason.calls)
        message = f"claims none of {calls} calls; most often because: {most.reason}"
        finding = Finding(Check.CLAIMED, message)
    elif claimed and not unclaimed and (entry.when.where or entry.when.values or entry.when.ranks):
        message = (
            "every sample meets the conditions of `when`; add a sample that does not to `samples`,"
            " or leave the conditions out"
        )
        finding = Finding(Check.CONDITIONS, message, is_failure=False)
    if finding is None:
        return tuple(rows)
    return tuple(replace(row, findings=(*row.findings, finding)) for row in rows)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A sample, and its results on the CPU."""

    sample: Sample
    cpu: Values
    wide: Values | None
    is_random: bool


_CLAIMED = ""
"""Stands for the reason of calls that became composites."""


@dataclass(frozen=True, slots=True)
class _Verifier:
    subject: Subject
    catalog: Catalog
    frontend: Frontend
    dtype: str
    count: int

    def row(self) -> Row:
        bare = Row(self.subject.label, self.dtype, "", 0, tolerance=self._tolerance())
        for function in self.subject.entry.functions[:1] if not self.subject.function else ():
            try:
                import_module(function.partition(":")[0])
            except UnusableFunctionError as error:  # programs can do without the package
                return replace(bare, findings=(_unverified(str(error)),))
        try:
            selected = self._selected()
        except UnusableFunctionError:  # the function that yields samples
            raise
        except CompositesError as error:
            return replace(bare, findings=(Finding(Check.CALL, str(error)),))
        if isinstance(selected, NoCalls):
            return replace(bare, findings=(_unverified(selected.reason),))
        prepared, refusal = _prepared(selected.samples)
        bare = replace(bare, source=selected.source, samples=len(prepared))
        if not prepared:
            return replace(bare, findings=(_unverified(f"the CPU refuses all samples: {refusal}"),))
        samples = [item.sample for item in prepared]
        stock = self._stock(samples)
        with self._turned_on() as statistics:
            calls = self._counting(statistics)
            ours = runs.on_device(self.frontend, samples, stock=False, twice=_TWICE)
            counted = calls()
        return self._judged(bare, prepared, stock, ours, counted)

    @contextmanager
    def _turned_on(self) -> Iterator[Statistics]:
        """A context in which the subject is on, with the counts of its calls.

        Raises:
            CompositesError: the entry cannot be turned on.
        """
        subject = self.subject
        if subject.function is not None:  # a function under `@composite` is always on
            yield activation.statistics
            return
        for entry in subject.entries:
            for function in entry.functions[:1]:
                with suppress(UnusableFunctionError):  # programs can do without the package
                    import_module(function.partition(":")[0])
        counted = Statistics()
        if subject.alternative is not None:
            check_functions(subject.alternative, subject.entry)
        with activation.installed(self.catalog, subject.entries, counted, subject.words):
            yield counted

    def _counting(self, statistics: Statistics) -> Callable[[], Counter[str]]:
        """Count calls from now on, by the reasons why they did not become composites. For a
        backward without an operator, count the calls of its forward."""
        entry = self.subject.entry
        if entry.gradients and self.subject.forward is not None:
            entry = self.subject.forward

        def until_now() -> Counter[str]:
            counted = statistics.for_entry(entry)
            calls = Counter({_CLAIMED: counted.caught})
            for fallback in list(counted.fallbacks.values()):
                calls[fallback.reason] += fallback.calls
            return calls

        before = until_now()
        return lambda: until_now() - before

    def _selected(self) -> Samples | NoCalls:
        """The samples of the first source whose samples reach the entry, or else of the last source
        that has samples.

        Raises:
            UnusableFunctionError: a function that the entry names cannot be used.
            CompositesError: the entry cannot be turned on.
        """
        if self.subject.alternative is not None:
            return self._accepted_samples(self.subject.alternative)
        last: Samples | NoCalls = NoCalls("no samples")
        for offered in sources(self.subject, self.dtype, self.count):
            if isinstance(offered, NoCalls):
                return last if isinstance(last, Samples) else offered
            last = offered
            with self._turned_on() as statistics:
                calls = self._counting(statistics)
                reached = self._fails(offered.samples) or calls()
            if reached:
                break
        return last

    def _accepted_samples(self, alternative: Kernel) -> Samples | NoCalls:
        """The samples that the alternative takes, from the first source that has such samples."""
        names = {alternative.name, f"{alternative.name}, backward"}
        for offered in sources(self.subject, self.dtype, _MORE * self.count):
            accepted: list[Sample] = []
            for sample in () if isinstance(offered, NoCalls) else offered.samples:
                with self._turned_on() as statistics:
                    failed = self._fails([sample])
                    used = statistics.for_entry(self.subject.entry).decompositions.keys()
                    if failed or names & used:
                        accepted.append(sample)
            if accepted and not isinstance(offered, NoCalls):
                return Samples(offered.source, chosen(accepted, self.count))
        return NoCalls("it takes no sample; name some that it takes with its key `samples`")

    def _fails(self, samples: Sequence[Sample]) -> bool:
        """Return whether the entry's own function fails for a sample, which shows that the sample
        reached the entry."""
        outcomes = runs.traced(self.frontend, samples)
        return any(isinstance(o, Raised) and o.type == LoweringError.__name__ for o in outcomes)

    def _stock(self, samples: Sequence[Sample]) -> Run:
        for operator in [find_operator(entry.op) for entry in self.subject.entries if entry.op]:
            if operator.qualified in self.frontend.crashing:
                crash = Raised("RuntimeError", f"the stock {operator.qualified} ends the process")
                return Run([crash for _ in samples])
        return runs.on_device(self.frontend, samples, stock=True)

    def _judged(
        self, bare: Row, prepared: Sequence[Prepared], stock: Run, ours: Run, calls: Counter[str]
    ) -> Row:
        is_set = self.subject.alternative or self.dtype in dict(self.subject.entry.tolerance)
        judged = [
            judge(
                Outcomes(
                    sample=item.sample.text,
                    cpu=item.cpu,
                    wide=item.wide,
                    stock=stock.outcomes[number],
                    ours=ours.outcomes[number],
                    again=ours.again.get(number),
                    is_random=item.is_random,
                    is_native=self._is_native(),
                    limit=self._tolerance() if is_set else None,
                )
            )
            for number, item in enumerate(prepared)
        ]
        bits = [item.same_bits for item in judged if item.same_bits is not None]
        findings = [finding for item in judged for finding in item.findings]
        if not calls and not findings:
            findings.append(_unverified("no sample calls what the entry catches"))
        if stock.failure and ours.failure:  # no numbers were compared
            findings.append(_unverified(f"without the entry too, {ours.failure}"))
        findings += self._indistinguishable(ours)
        if bare.source != DATABASE:  # few of PyTorch's many samples run
            findings += self._unvaried(ours)
        return replace(
            bare,
            claimed=calls.pop(_CLAIMED, 0),
            unclaimed=tuple(Unclaimed(*item) for item in calls.items()),
            numbers=greatest([item.numbers for item in judged]),
            same_bits=all(bits) if bits else None,
            findings=tuple(findings),
        )

    def _tolerance(self) -> float:
        """The largest accepted error."""
        entry, alternative = self.subject.entry, self.subject.alternative
        promised = dict((*entry.tolerance, *(alternative.tolerance if alternative else ())))
        return promised.get(self.dtype, accepted_error(self.dtype))

    def _is_native(self) -> bool:
        """Return whether all entries that are on are the stock lowering of operators. XLA can fuse
        the body of a Python function in another way than the calls that it replaces."""
        return self.subject.alternative is None and all(
            e.op and e.decomposition.kind == "native" for e in self.subject.entries
        )

    def _indistinguishable(self, ours: Run) -> Iterator[Finding]:
        """Composites with the same name, attributes and types, and different decompositions. The
        kernel of a consumer cannot be right for both."""
        names = {entry.composite_name for entry in self.subject.entries}
        names |= {entry.backward_name for entry in self.subject.entries}
        if ours.module is None:
            return
        meanings: dict[str, set[str]] = {}
        for composite in find_composites(ours.module.ir):
            call = signature(composite)
            if call.name in names:
                written = f"{call} {call.attributes or '{}'}, version {call.version}"
                meanings.setdefault(written, set()).add(fingerprint(ours.module, composite))
        for written in (text for text, different in meanings.items() if len(different) > 1):
            yield Finding(
                Check.ATTRIBUTES,
                f"calls of different meaning have the same text: {written}; make the argument"
                " in which they differ an attribute, or fix it with `when`",
            )

    def _unvaried(self, ours: Run) -> Iterator[Finding]:
        """Yield a note of attributes with one value in all calls."""
        entry = self.subject.entry
        fixed = {name for name, values in entry.when.values if len(values) == 1}
        taken = [a.name for a in entry.attributes if a.argument and a.argument not in fixed]
        if ours.module is None or not taken or self.subject.alternative is not None:
            return
        made = (signature(composite) for composite in find_composites(ours.module.ir))
        calls = [c.python_attributes() for c in made if c.name == entry.composite_name]
        same = [name for name in taken if len({repr(call.get(name)) for call in calls}) == 1]
        if same:
            yield Finding(
                Check.ATTRIBUTES,
                f"no sample varies {', '.join(same)}, so a decomposition that ignores one of"
                " them would pass; vary them in `samples`, or fix them with `when`",
                is_failure=False,
            )


def _unverified(reason: str) -> Finding:
    return Finding(Check.CLAIMED, reason, is_failure=False)


def _prepared(samples: Sequence[Sample]) -> tuple[list[Prepared], str]:
    """The samples that the CPU runs, and its error for the last one that it refuses."""
    prepared: list[Prepared] = []
    refusal = ""
    for sample in samples:
        cpu = runs.on_cpu(sample)
        if isinstance(cpu, Raised):  # PyTorch may have no gradient for the call
            sample = without_gradients(sample)
            cpu = runs.on_cpu(sample)
        if isinstance(cpu, Raised):
            refusal = str(cpu).partition("\n")[0]
            continue
        wide = runs.on_cpu(sample, wide=True)
        right = wide if isinstance(wide, Values) else None
        prepared.append(Prepared(sample, cpu, right, runs.is_random(sample, cpu)))
    return prepared, refusal
