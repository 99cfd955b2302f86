"""Tables and plots of the measurements of :mod:`quality_plot`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from quality import MEASURE, TIE

from secondpass_evaluation import difference
from secondpass_evaluation.report.svg import ACCENT, GAIN, INK, LINE, LOSS, MUTED, figure, inline

Record = dict[str, Any]
TITLES = {
    "trec-dl19": "TREC DL 2019",
    "cranfield": "Cranfield",
    "vaswani": "Vaswani",
    "xquad-en": "XQuAD, English",
    "xquad-de": "XQuAD, German",
    "python-docs": "Python's documentation",
}
STAGES = {"BM25, stemmed": "BM25"}
FULL = "100"
KINDS = {
    "words": "after BM25",
    "vectors": "after vector search",
    "hybrid": "after hybrid search",
}
"""Kind of first stage in the measurements -> heading."""
RESAMPLES = 10_000
LOWEST = -0.03
"""Lower end of the plot of quality against time; lower marks are drawn there, with their value."""
MARKS = re.compile(r"(<!-- begin: (\w+), .*? -->\n).*?(\n<!-- end -->)", re.DOTALL)


def changes(record: Record, method: str, depth: str) -> NDArray[np.float64]:
    """Differences from the first stage, one per query."""
    after = record["methods"][method][depth]["after"]
    values = np.array([after[query] - value for query, value in record["before"].items()])
    values[np.abs(values) <= TIE] = 0
    return values


def mean(values: Iterable[float]) -> float:
    return float(np.mean([*values]))


def gain(records: Sequence[Record], method: str, depth: str) -> float:
    """Mean over lists of the mean difference over their queries."""
    return mean(changes(record, method, depth).mean() for record in records)


def ends(records: Sequence[Record], method: str, depth: str) -> tuple[float, float]:
    """The 95 % interval of :func:`gain`.

    By a paired bootstrap: queries are drawn again within each list (10,000 times, percentiles).
    """
    generator = np.random.default_rng(0)
    drawn = np.zeros(RESAMPLES)
    for record in records:
        values = changes(record, method, depth)
        for part in np.array_split(drawn, 10):  # bounds the memory
            indices = generator.integers(0, len(values), (len(part), len(values)))
            np.add(part, values[indices].mean(axis=1) / len(records), out=part)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(low), float(high)


def share(records: Sequence[Record], method: str, depth: str) -> float:
    """Share of the gain at depth 100 that another depth keeps."""
    return gain(records, method, depth) / gain(records, method, FULL)


def cpu(records: Sequence[Record], method: str, depth: str) -> float:
    """Mean CPU milliseconds per query."""
    return mean(record["cpu"][method][depth] for record in records)


def compared(records: Sequence[Record], kind: str) -> list[Record]:
    """The English lists of one kind of first stage, over which means are taken."""
    return [one for one in records if one["behind"] == kind and one["english"] and one["seen"]]


# ------------------------------------------------------------------------ Markdown


def table(header: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A Markdown table, empty without rows; columns after the first ``texts`` are aligned right."""
    rows = [*rows]
    if not rows:
        return ""
    dashes = [" --- "] * texts + [" ---: "] * (len(header) - texts)
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(dashes)}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def signed(value: float) -> str:
    """As ``+.012``, with a typographic minus."""
    return f"{value:+.3f}".replace("-", "\N{MINUS SIGN}").replace("0.", ".", 1)


def plain(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{signed(low)} to {signed(high)}"


def named(record: Record) -> list[str]:
    stage = record["first_stage"]
    name = record["collection"]
    return [TITLES.get(name, name), STAGES.get(stage, stage)]


def changed(record: Record) -> tuple[Any, list[str]]:
    """The difference by `embedded` at depth 100, and the cells that all tables have of it."""
    after = record["methods"]["embedded"][FULL]["after"]
    change = difference(MEASURE, after, record["before"], test="t")
    cells = [str(change.queries), plain(mean(record["before"].values())),
             plain(mean(after.values())), signed(change.mean),
             interval(change.low, change.high)]  # fmt: skip
    return change, [*named(record), *cells]


def by_kind(records: Sequence[Record]) -> list[Record]:
    return [one for kind in KINDS for one in records if one["behind"] == kind]


def quality(records: Sequence[Record]) -> str:
    """Quality at depth 100 of every list."""
    rows = []
    for record in by_kind(records):
        change, cells = changed(record)
        cells[4] = f"**{cells[4]}**"
        others = [
            signed(float(changes(record, name, FULL).mean()))
            for name in ("embedded alone", "lexical")
        ]
        rows.append([*cells, f"{change.wins} / {change.ties} / {change.losses}", *others])
    header = [
        *("collection", "first stage", "queries", "before", "`embedded`", "gain", "95 % interval"),
        *("won / tied / lost", "*alone*", "`lexical`"),
    ]
    return table(header, rows, texts=2)


def depth(records: Sequence[Record]) -> str:
    """The gain of `embedded` by depth, and its cost."""
    parts = []
    for kind, title in KINDS.items():
        lists = compared(records, kind)
        if not lists:
            continue
        depths = [*lists[0]["methods"]["embedded"]]
        rows = [
            [", ".join(named(record)),
             *(signed(float(changes(record, "embedded", one).mean())) for one in depths)]
            for record in lists
        ]  # fmt: skip
        rows += [
            ["**mean gain**", *(f"**{signed(gain(lists, 'embedded', one))}**" for one in depths)],
            ["95 % interval", *(interval(*ends(lists, "embedded", one)) for one in depths)],
            ["share of the gain at 100",
             *(f"{share(lists, 'embedded', one):.0%}".replace("%", " %") for one in depths)],
            ["CPU ms per query", *(f"{cpu(lists, 'embedded', one):,.0f}" for one in depths)],
        ]  # fmt: skip
        parts.append(table([title, *depths], rows))
    return "\n\n".join(parts)


def summary(records: Sequence[Record]) -> str:
    """A table of the README: `embedded` at depth 100."""
    rows = []
    for record in by_kind(records):
        *cells, gained, ends_of_gain = changed(record)[1]
        rows.append([*cells, f"{gained} ({ends_of_gain})"])
    header = ["collection", "first stage", "queries", "before", "after", "gain (95 % interval)"]
    return table(header, rows, texts=2)


def which(records: Sequence[Record], *, seen: bool) -> list[Record]:
    """The collections on which constants were chosen, or the others (``--unseen``)."""
    return [one for one in records if one["seen"] is seen]


def notes(records: Sequence[Record]) -> str:
    """Rankings that are not ok, whose figures are not those of the named method."""
    lines = []
    for record in records:
        for name, by_depth in record["methods"].items():
            counts = Counter(by_depth[FULL]["statuses"])
            if not_ok := {status: n for status, n in counts.items() if status != "ok"}:
                found = ", ".join(f"{n} {status}" for status, n in not_ok.items())
                total = sum(counts.values())
                lines.append(f"- {name}, {', '.join(named(record))}: {found} of {total} rankings")
    return "\n".join(lines)


SECTIONS: dict[str, Callable[[Sequence[Record]], str]] = {
    "quality": lambda records: quality(which(records, seen=True)),
    "unseen": lambda records: quality(which(records, seen=False)),
    "depth": depth,
    "summary": lambda records: summary(which(records, seen=True)),
    "summary_unseen": lambda records: summary(which(records, seen=False)),
}
"""Name in the comment that marks the place of a table in the docs -> table."""


def markdown(records: Sequence[Record]) -> str:
    """All tables."""
    parts = [write(records) for write in SECTIONS.values()]
    return "\n\n".join(part for part in [*parts, notes(records)] if part)


def write_docs(records: Sequence[Record], root: Path) -> None:
    """Replace the marked tables of README.md and docs/evidence.md, and draw the plots.

    Those without measurements stay as they are.
    """
    for path in (root / "README.md", root / "docs" / "evidence.md"):
        text = path.read_text(encoding="utf-8")
        text = MARKS.sub(
            lambda mark: (
                f"{mark[1]}\n{part}\n{mark[3]}" if (part := SECTIONS[mark[2]](records)) else mark[0]
            ),
            text,
        )
        path.write_text(text, encoding="utf-8")
    if not which(records, seen=True):
        return
    (root / "docs" / "quality.svg").write_text(tradeoff(records), encoding="utf-8")
    (root / "docs" / "before-after.svg").write_text(before_after(records), encoding="utf-8")


# ------------------------------------------------------------------------ plots


def standalone(svg: str) -> str:
    """A plot as an SVG file, with the colours of the report's page."""
    css = files("secondpass_evaluation.report") / "templates" / "page.css"
    light, dark = re.findall(r":root \{.*?\}", css.read_text(encoding="utf-8"), re.DOTALL)[:2]
    style = (
        f"<style>{light} @media (prefers-color-scheme: dark) {{ {dark} }}"
        " svg { background: var(--paper); } text { font-family: system-ui, sans-serif !important; }"
        "</style>"
    )
    head, rest = svg.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg">{style}{rest}\n'


LINES = {
    "embedded": (ACCENT, "-", "embedded, by depth"),
    "embedded alone": (GAIN, "--", "its scorer alone, without the blend"),
    "lexical": (MUTED, ":", "lexical"),
}


def tradeoff(records: Sequence[Record]) -> str:
    """Gain over the first stage against CPU time, a line per method and a mark per depth."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    label = []
    with figure(10.4, 4.1) as (drawing, single):
        single.remove()
        panels = drawing.subplots(1, len(KINDS), sharey=True)
        for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
            lists = compared(records, kind)
            if not lists:
                continue
            for name, (colour, style, shown) in LINES.items():
                depths = [*lists[0]["methods"][name]]
                times = [cpu(lists, name, one) for one in depths]
                gains = [gain(lists, name, one) for one in depths]
                axes.plot(times, [max(one, LOWEST) for one in gains], style, color=colour,
                          linewidth=1.3, marker="o", markersize=5, label=shown,
                          zorder=3)  # fmt: skip
                for one, x, y in zip(depths, times, gains, strict=True):
                    label.append(f"{title}, {name}, depth {one}: {y:+.3f}, {x:.1f} ms")
                    if y < LOWEST:
                        axes.annotate(f"{signed(y)} ↓", (x, LOWEST), (0, 6), ha="center",
                                      textcoords="offset points", fontsize=7.5, color=colour,
                                      rotation=90)  # fmt: skip
                    elif name == "embedded":
                        axes.plot([x, x], ends(lists, name, one), color=colour, linewidth=0.9,
                                  alpha=0.5)  # fmt: skip
                        axes.annotate(one, (x, y), (-5, 4), ha="right", fontsize=8.5, color=INK,
                                      textcoords="offset points")  # fmt: skip
            axes.axhline(0, color=MUTED, linewidth=0.9)
            axes.set_xscale("log")
            axes.set_xlim(left=0.3)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_ylim(bottom=LOWEST * 1.1)
            axes.grid(axis="y")
            axes.set_xlabel("CPU milliseconds per query, one thread")
            axes.set_title(f"{title}: mean of {len(lists)} lists", fontsize=9.5, color=INK)
        panels[0].set_ylabel(f"gain in {MEASURE} over the first stage")
        panels[0].legend(loc="upper left", frameon=False, fontsize=8.5, labelcolor=INK)
        return standalone(inline(drawing, "quality-", ". ".join(label)))


def before_after(records: Sequence[Record]) -> str:
    """Each query of DL 2019 before and after `embedded`, the largest gain first."""
    record = next(one for one in records if one["collection"] == "trec-dl19")
    after = record["methods"]["embedded"][FULL]["after"]
    pairs = sorted(
        ((value, after[query]) for query, value in record["before"].items()),
        key=lambda pair: pair[0] - pair[1],
    )
    means = [mean(column) for column in zip(*pairs, strict=True)]
    better = sum(new - old > TIE for old, new in pairs)
    worse = sum(new - old < -TIE for old, new in pairs)
    with figure(8.4, 3.5) as (drawing, axes):
        for x, (old, new) in enumerate(pairs):
            colour = GAIN if new - old > TIE else LOSS if new - old < -TIE else MUTED
            axes.plot([x, x], [old, new], color=colour, linewidth=2)
            axes.plot([x], [old], "o", color=LINE, markersize=4.5, zorder=3)
            axes.plot([x], [new], "o", color=colour, markersize=5.5, zorder=4)
        for value, colour, text in zip(
            means, (MUTED, ACCENT), ("BM25", "with the second pass"), strict=True
        ):
            axes.axhline(value, color=colour, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
            axes.annotate(f"{text}: {plain(value)}", (1.005, value), color=colour, va="center",
                          xycoords=axes.get_yaxis_transform(), annotation_clip=False)  # fmt: skip
        axes.set_xlim(-0.8, len(pairs) - 0.2)
        axes.set_ylim(-0.03, 1.03)
        axes.set_xticks([])
        axes.grid(axis="y")
        axes.set_ylabel(MEASURE)
        equal = len(pairs) - better - worse
        axes.set_xlabel(
            f"{len(pairs)} queries: {better} better, {equal} equal, {worse} worse; "
            "grey is before, coloured after"
        )
        label = (
            f"{MEASURE} of each query of TREC DL 2019 before and after the second pass: mean "
            f"{plain(means[0])} and {plain(means[1])}; {better} better, {worse} worse"
        )
        return standalone(inline(drawing, "before-", label))
