"""The result of tuning, and its reports: sentences, tables, comments of a configuration, a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from secondpass import InputError
from secondpass.attributes import unchangeable
from secondpass.formats.lines import AnyPath
from secondpass.ranking.blending import Blend
from secondpass.settings import counted, suggestion
from secondpass.settings.keys import with_hidden_keys
from secondpass_evaluation.provenance import TUNED, write_config
from secondpass_evaluation.reading import Run
from secondpass_evaluation.report import page
from secondpass_evaluation.report.markdown import escaped, table_text
from secondpass_evaluation.report.tables import settings_table
from secondpass_evaluation.report.text import (
    KNOWN,
    Cell,
    Column,
    Row,
    Table,
    Tone,
    in_milliseconds,
    interval,
    number,
    p_phrase,
    p_value,
    row,
    timed,
)
from secondpass_evaluation.results import percentile
from secondpass_evaluation.tuning.selection import Held, is_significant


@dataclass(frozen=True, slots=True)
class Variant:
    """A reranker with one depth (None: all candidates) and one blend (None: the scores alone).

    ``config`` has both; ``seconds`` are the time of reranking, for each query; ``cost`` is the
    mean of a query at the configured prices, 0 for local models, None if unknown; ``share_known``
    is the share of the passages that had been encoded before.
    """

    depth: int | None
    blend: Blend | None
    config: Mapping[str, Any] = field(repr=False)
    run: Run = field(repr=False)
    seconds: tuple[float, ...] = field(repr=False)
    cost: float | None
    share_known: float = 0.0

    @property
    def label(self) -> str:
        """Depth and blend in words."""
        depth = "all candidates" if self.depth is None else f"depth {self.depth}"
        if self.blend is None:
            return f"{depth}, no blend"
        return f"{depth}, blend {self.blend.original:g} {self.blend.normalize}"

    @property
    def p95(self) -> float:
        """Seconds within which 95 % of the queries are reranked."""
        return percentile(self.seconds, 0.95) or 0.0


@unchangeable
@dataclass(frozen=True, slots=True)
class Trial:
    """One reranker that was tried, with the depth and blend that are best for it.

    Attributes:
        reason: why it was not adopted, or not tried.
        config: of the best variant; None if it was not tried.
        variants: number of depths and blends that were compared within the limits.
        setting: depth and blend of the best variant, in words.
        mean: mean of the measure over all queries. The variant was chosen on these, so the mean is
            likely to be too high; the held-out gain is not.
        held: gains on queries that had no part in the choice of the variant.
        seconds: 95th percentile of the seconds of reranking.
        cost: of a query, at the configured prices; None if it is not known.
        statuses: number of rankings by report status, over all runs.
        beyond_limits: whether it was not tried because of the limits of latency and cost.
        share_known: share of the passages (0 to 1) that had been encoded before ``seconds`` was
            measured, for another query or reranker or in a store. New ones take much longer.
    """

    name: str
    status: Literal["adopted", "tried", "not_tried"]
    reason: str = ""
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    variants: int = 0
    setting: str = ""
    mean: float | None = None
    held: Held | None = None
    seconds: float | None = None
    cost: float | None = None
    statuses: Mapping[str, int] = field(default_factory=dict)
    beyond_limits: bool = False
    share_known: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; keys are hidden."""
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "config": None if self.config is None else with_hidden_keys(self.config),
            "held": None if self.held is None else asdict(self.held),
            "statuses": dict(self.statuses),
        }

    def __repr__(self) -> str:
        parts = [self.status.replace("_", " ")]
        parts += [text for text in (self.setting, self.reason) if text]
        if self.held is not None:
            parts.append(f"held-out gain {self.held.mean:+.4f}")
        return f"<Trial {self.name!r}: {'; '.join(parts)}>"


ZERO = 5e-5
"""Differences of gains below this are printed as 0.0000."""


@unchangeable
@dataclass(frozen=True, slots=True)
class BetterSearch:
    """A search that alone is better than the first stage whose candidates were reranked.

    ``mean`` is its mean of the measure, and ``gain`` the held-out gains of the adopted reranker
    over it; None if none is adopted.
    """

    name: str
    mean: float
    gain: Held | None


@dataclass(frozen=True)
class Tuning:
    """The result of :func:`~secondpass_evaluation.tune`, and its reports.

    Attributes:
        queries: number of judged queries with different texts.
        stage: the first stage whose candidates were reranked.
        baseline: mean of the measure for the first stage.
        adopted: name of the adopted reranker; None: keep the first stage.
        config: its configuration with depth and blend; None if none is adopted.
        gain: held-out gains of the whole choice of reranker, depth and blend, which is the gain to
            expect of ``config``. None if nothing could be tried.
        more_queries: number of further judged queries needed to detect the gain ``detectable``, if
            nothing is adopted. 0: there are enough. None: something is adopted, or the number
            cannot be estimated.
        detectable: the mean gain that all these queries together would detect more often than not.
            None: something is adopted, or nothing could be tried.
        trials: the rerankers that were tried, and those that could not be.
        settings: of the choice: limits, folds, seed, date, versions, machine, ….
        notes: remarks on the data and the limits that affect the figures.
        better_search: the best other search, if it alone is better than ``stage``. None if there is
            none; searches that would have to encode the corpus first are not compared.
    """

    suite: str
    queries: int
    stage: str
    measure: str
    baseline: float
    adopted: str | None
    config: Mapping[str, Any] | None = field(repr=False)
    gain: Held | None
    more_queries: int | None
    detectable: float | None
    trials: tuple[Trial, ...]
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    better_search: BetterSearch | None = None

    def __repr__(self) -> str:
        queries = counted(self.queries, "query", "queries")
        adopted = f"keep {self.stage}" if self.adopted is None else f"adopt {self.adopted}"
        adopted = "nothing tried" if self.nothing_tried else adopted
        parts = [queries, adopted, f"{self.measure} {self.baseline:.4f} before"]
        if self.gain is not None:
            parts.append(f"held-out gain {self.gain.mean:+.4f}")
        parts.append(counted(len(self.trials), "trial"))
        return f"<Tuning {self.suite!r}: {'; '.join(parts)}>"

    def __getitem__(self, name: str) -> Trial:
        """The reranker of this name.

        Raises:
            KeyError: there is none; the message names those that were tried.
        """
        for trial in self.trials:
            if trial.name == name:
                return trial
        names = [trial.name for trial in self.trials]
        raise KeyError(f"no reranker is named {name!r}{suggestion(name, names)}")

    @property
    def nothing_tried(self) -> bool:
        """Whether no reranker could run, so that nothing is known about any of them."""
        return self.gain is None and not any(trial.beyond_limits for trial in self.trials)

    @property
    def verdict(self) -> str:
        """The recommendation with its evidence, in a few sentences."""
        if self.nothing_tried:
            return "Nothing was reranked, so nothing is decided: no reranker could be tried."
        other = _other_search(self)
        if self.gain is None:
            return f"Keep the first stage, {self.stage}: no reranker is within the limits.{other}"
        if self.adopted is not None:
            trial = self[self.adopted]
            assert trial.held is not None
            at = f", at {takes}" if (takes := _takes(trial)) else ""
            text = (
                f"Adopt {trial.name}, {trial.setting}{at}. On held-out queries, which had no part "
                f"in the choice, its gain in {self.measure} over the first stage, {self.stage}, is "
                f"{_gain(self, trial.held)}. This is significant ({p_phrase(trial.held.p)}, "
                f"corrected for {_tried(self)})."
            )
            if abs(self.gain.mean - trial.held.mean) >= ZERO:
                text += (
                    f" If the reranker, too, is chosen without these queries, the gain is "
                    f"{self.gain.mean:+.4f}."
                )
            text += other
            if trial.held.low is not None and trial.held.low < trial.held.mean / 2:
                text += (
                    " Expect less: a reranker is adopted only if its measured gain is high, so "
                    "the measured gain is on average too high."
                )
            # Of a rarer loss, none shows with a probability of 5 % or more.
            rare = 1 / max(1, self.queries // 3)
            return (
                f"{text} With {counted(self.queries, 'query', 'queries')}, a loss that hits fewer "
                f"than {rare:.0%} of queries can go unnoticed."
            )
        text = (
            f"Keep the first stage, {self.stage}: no reranker is certain to improve "
            f"{self.measure} enough."
        )
        tried = [trial for trial in self.trials if trial.held is not None]
        best = max(tried, key=lambda trial: trial.held.mean if trial.held else 0.0)
        if best.held is not None:
            gain = _gain(self, best.held)
            text += f" The best reranker, {best.name}, changes it by {gain}: {best.reason}."
        return f"{text}{other} {_power(self)}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON; keys are hidden."""
        return {
            **vars(self),
            "verdict": self.verdict,
            "config": None if self.config is None else with_hidden_keys(self.config),
            "gain": None if self.gain is None else asdict(self.gain),
            "better_search": None if self.better_search is None else asdict(self.better_search),
            "trials": [trial.to_dict() for trial in self.trials],
            "settings": dict(self.settings),
            "notes": list(self.notes),
        }

    def to_markdown(self) -> str:
        """The verdict, and the rerankers that were tried."""
        parts = [f"# {escaped(self.suite)}: {self._queries}", f"**{escaped(self.verdict)}**"]
        parts += [f"> {escaped(note)}" for note in self.notes]
        for table in tables(self):
            parts += [f"## {escaped(table.title)}", *map(escaped, table.notes), table_text(table)]
        return "\n\n".join(parts) + "\n"

    def to_html(self) -> str:
        """One page without external resources."""
        origin = [str(self.settings[name]) for name in ("date", "command") if name in self.settings]
        return page.render_page(
            "tuning.html.j2",
            title=f"{self.suite}: {self._queries}",
            subtitle=f"Choice of a reranker behind {self.stage}",
            origin=" \N{MIDDLE DOT} ".join(origin),
            answer=self.verdict,
            because="",
            verdict_class="pays" if self.adopted else "",
            notes=self.notes,
            tables=tables(self),
            figures={},
            settings=settings_table(self.settings),
            configs={},
            comments=[] if self.config is None else self.provenance(),
        )

    @property
    def _queries(self) -> str:
        return counted(self.queries, "judged query", "judged queries")

    def provenance(self) -> list[str]:
        """The comments of :meth:`write`: data, queries, gain, interval, versions."""
        settings = self.settings
        versions = settings.get("versions", {})
        packages = ", ".join(f"{name} {version}" for name, version in versions.items())
        limits = [f"{name} {settings[name]}" for name in ("latency", "latency_of", "cost")
                  if name in settings]  # fmt: skip
        trial = self[self.adopted] if self.adopted is not None else None
        others = "; ".join(
            f"{other.name} ({other.reason})" for other in self.trials if other is not trial
        )
        lines = [
            f"{TUNED}, {settings.get('date', '')}.",
            self.verdict,
            f"Data: {self.suite}, {self._queries}, "
            f"candidates of the first stage, {self.stage}, {self.measure} {self.baseline:.4f} "
            "without reranking.",
            *(f"Note: {note}" for note in self.notes),
        ]
        if limits:
            lines.append(f"Limits: {', '.join(limits)}.")
        if others:
            lines.append(f"Not adopted: {others}.")
        lines += [
            f"Smallest gain {settings.get('smallest_gain')}, confidence "
            f"{settings.get('confidence')}, {settings.get('folds')} folds, "
            f"seed {settings.get('seed')}.",
            f"Versions: {packages}.",
        ]
        if "command" in settings:
            lines.append(f"Command: {settings['command']}")
        return lines

    def write(self, path: AnyPath, *, force: bool = False) -> None:
        """Write the configuration as YAML, with its provenance as comments.

        Raises:
            InputError: nothing was adopted, the path is not that of a YAML file, or the file exists
                and ``force`` is not set.
            ConfigurationError: the configuration holds a key, which no file may.
            OSError: the file cannot be written.
        """
        if self.config is None:
            raise InputError("nothing was adopted, so there is no configuration to write")
        write_config(path, self.config, self.provenance(), force=force)


def _other_search(tuning: Tuning) -> str:
    """Sentences on a search that alone is better than the first stage; empty if none is."""
    other = tuning.better_search
    if other is None:
        return ""
    text = (
        f" But {other.name} alone, without a reranker, has {tuning.measure} {other.mean:.4f} "
        f"({tuning.stage} {tuning.baseline:.4f})."
    )
    if other.gain is not None:
        text += f" Over {other.name}, the gain of this configuration is {_gain(tuning, other.gain)}"
        confidence = tuning.settings.get("confidence", 0.95)
        text += "." if is_significant(other.gain, confidence) else ", which is not significant."
    return f"{text} To tune behind it: --behind {other.name}."


def _power(tuning: Tuning) -> str:
    """How many more judged queries are needed, in a sentence; empty if not known."""
    if tuning.more_queries is None or tuning.detectable is None:
        return ""
    if tuning.more_queries == 0:
        return (
            f"With {tuning.queries:,} judged queries, the test would detect a true gain of "
            f"{tuning.detectable:.3g} more often than not."
        )
    more = counted(tuning.more_queries, "more judged query", "more judged queries")
    return (
        f"With about {more}, the test would detect a true gain of {tuning.detectable:.3f} more "
        "often than not. If you tune again, that is a second test, which may also adopt a "
        "reranker by chance."
    )


def tables(tuning: Tuning) -> list[Table]:
    """The rerankers that were tried, and those that were not."""
    tried = [trial for trial in tuning.trials if trial.held is not None]
    others = [trial for trial in tuning.trials if trial.held is None]
    heads = (
        Column("reranker", "text"),
        *map(
            Column, ("held-out gain", f"{_percent(tuning)} interval", "corrected p", "ms", "cost")
        ),
    )
    note = (
        f"Held-out gain: how much higher {tuning.measure} is than in the first stage, on queries "
        "that had no part in the choice of depth and blend. The intervals are approximate. They "
        "include one imaginary query more, which loses, or gains, as much as the first stage "
        "has. They are not corrected for all that was tried, as p is, so an interval may exclude "
        "0 where the gain may be chance. ms: 95 % of the queries are reranked in this time. cost: "
        "for 1,000 queries."
    )
    notes = (note, KNOWN) if any(trial.share_known for trial in tried) else (note,)
    # Two tables: with its setting and outcome, a row of figures is wider than most terminals.
    outcomes = tuple(
        row(trial.name, trial.setting, "adopted" if trial.status == "adopted" else trial.reason)
        for trial in tried
    )
    outcome = (heads[0], Column("best setting", "text"), Column("outcome", "text"))
    reasons = tuple(row(trial.name, trial.reason) for trial in others)
    sections = [
        Table("tried", "Tried", heads, tuple(map(_trial_row, tried)), notes),
        Table("outcome", "Outcome", outcome, outcomes),
        Table("not-tried", "Not tried", (heads[0], Column("reason", "text")), reasons),
    ]
    return [table for table in sections if table.rows]


def _percent(tuning: Tuning) -> str:
    return f"{tuning.settings.get('confidence', 0.95) * 100:g}%"


def _trial_row(trial: Trial) -> Row:
    held = trial.held
    assert held is not None
    tone: Tone = ""
    if trial.status == "adopted":
        tone = "gain"
    elif held.high is not None and held.high < 0:
        tone = "loss"
    return row(
        trial.name,
        Cell(f"{held.mean:+.4f}", tone),
        Cell(interval(held.low, held.high), tone),
        p_value(held.p),
        timed(trial.seconds, trial.share_known),
        _cost(trial.cost),
    )


def _cost(cost: float | None) -> str:
    """The cost of a thousand queries."""
    return number(None if cost is None else cost * 1000, 2)


def _takes(trial: Trial) -> str:
    """The time and cost of reranking, in words; empty if not known."""
    parts = []
    if trial.seconds is not None:
        remark = "95th percentile"
        if trial.share_known:
            remark += f"; {trial.share_known:.0%} of the passages were encoded before"
        parts.append(f"{in_milliseconds(trial.seconds)} ms a query ({remark})")
    if trial.cost:
        parts.append(f"{trial.cost * 1000:,.2f} per 1,000 queries at the configured prices")
    return ", ".join(parts)


def _gain(tuning: Tuning, held: Held) -> str:
    text = f"{held.mean:+.4f}"
    if held.low is None:
        return text
    return f"{text} ({_percent(tuning)} interval {interval(held.low, held.high)})"


def _tried(tuning: Tuning) -> str:
    trials = [trial for trial in tuning.trials if trial.held is not None]
    variants = counted(sum(trial.variants for trial in trials), "variant", "variants")
    return f"{variants} of {counted(len(trials), 'reranker', 'rerankers')}"
