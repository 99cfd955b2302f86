import fcntl
import json
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secondpass.evaluation.comparison import Change, Comparison, Cost, Result, Shown, Stability
from secondpass.evaluation.measures import Evaluation
from secondpass.evaluation.report import charts
from secondpass.evaluation.report import query_charts as charts_of_one
from secondpass.evaluation.report.page import fragment, html
from secondpass.evaluation.report.tables import markdown
from secondpass.evaluation.report.verdict import verdict
from secondpass.evaluation.significance import Difference

MEASURES = ("nDCG@10", "RR")
VOID = {"meta", "br", "img", "link", "input", "hr"}
INJECTIONS = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></style></svg><svg onload=alert(1)>",
    "]]><!-- -- > &lt;&amp; $x^{2}$ \\frac",
    "\x00\x07\x1b[31m\x85\u202e\ud800\ufffe\nnext",
    "javascript:alert(1) url(http://example.org) @import 'x'",
    "\u65e5\u672c\u8a9e \u05e9\u05dc\u05d5\u05dd \U0001f600",
]


def make(
    count=6,
    text="how far is it",
    *,
    gain=0.1,
    p=0.01,
    low=0.05,
    high=0.15,
    rerankers=("rerank",),
    **changes,
):
    """A comparison of a first stage and rerankers, with all there is to show."""
    rng = random.Random(7)
    queries = {f"q{at}": f"{text} {at}" for at in range(count)}
    base = {query: rng.random() / 2 for query in queries}
    first = Result(
        "lexical",
        "ran",
        evaluation=evaluation(base),
        cost=Cost(dict.fromkeys(queries, 0.0021)),
    )
    results = [first]
    for number, name in enumerate(rerankers):
        after = {
            query: value + (gain if at % 3 else -gain / 2)
            for at, (query, value) in enumerate(base.items())
        }
        shown = tuple(
            Shown(rank, f"d{rank}", f"{text} passage", relevance, before)
            for rank, relevance, before in ((1, 2, 4), (2, 0, None), (3, None, 3))
        )
        change = Change("q1", f"{text} 1", 0.25, 0.75, shown, shown[::-1])
        results.append(
            Result(
                f"lexical+{name}",
                "ran",
                first_stage="lexical",
                config={"method": {"type": name}, "note": text},
                evaluation=evaluation(after),
                cost=Cost(
                    {query: 0.04 * (number + 1) + at / 1000 for at, query in enumerate(queries)},
                    calls=count,
                    pairs=count * 100,
                    input_tokens=count * 1234,
                    output_tokens=count * 7,
                    cost=count * 0.0021,
                ),
                statuses={"ok": count - 1, "degraded": 1},
                issues={"timeout": 1},
                stability=Stability(2, 0.912, 0.834, "nDCG@10", (0.4011, 0.4213)),
                differences={
                    name: Difference(name, count, gain, low, high, 0.95, p, p, 4, 0, 2)
                    for name in MEASURES
                },
                gains=(change,),
                losses=(replace(change, before=0.75, after=0.25),),
                moves=((4, 1), (1, 1), (None, 12), (30, None), (60, 7)),
            )
        )
    results.append(Result("lexical+none", "skipped", f"{text}: no key", "lexical"))
    made = Comparison(
        f"suite {text}",
        queries,
        {query: {"d1": 1} for query in queries},
        MEASURES,
        "lexical",
        tuple(results),
        {"depth": 100, "test": "randomization", "versions": {"secondpass": "0.1.0"}},
        (f"only a part {text}",),
    )
    return replace(made, **changes)


def evaluation(values):
    return Evaluation(
        {name: dict(values) for name in MEASURES},
        {name: sum(values.values()) / len(values) for name in MEASURES},
    )


def with_reranker(comparison, **changes):
    """The same with other fields of its rerankers that ran."""
    results = tuple(
        replace(one, **changes) if one.first_stage and one.status == "ran" else one
        for one in comparison.results
    )
    return replace(comparison, results=results)


@contextmanager
def without_matplotlib():
    with pytest.MonkeyPatch.context() as patch:
        for name in [*(one for one in sys.modules if one.startswith("matplotlib")), "matplotlib"]:
            patch.setitem(sys.modules, name, None)
        yield


class Parsed(HTMLParser):
    """The elements of a page; refuses one that is closed in the wrong place or not at all."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts, self.cells = [], [], [], [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        assert len({name for name, _ in attrs}) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data

    def all(self, name):
        return [value for _, found, value in self.attributes if found == name]


def check(page):
    """Well-formed, self-contained, with ids that occur once and references that lead somewhere."""
    parsed = Parsed(page)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base"} & set(parsed.tags)
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on") or name == "src"]
    ids = parsed.all("id")
    assert len(ids) == len(set(ids))
    for target in parsed.all("href"):
        assert target.startswith("#")
        assert target[1:] in ids
    assert set(parsed.all("aria-labelledby")) <= set(ids)
    for value in (*parsed.all("style"), *parsed.all("clip-path")):
        assert all(target in ids for target in re.findall(r"url\(#?(.*?)\)", value))
    assert "@import" not in re.search("<style>(.*?)</style>", page, re.DOTALL)[1]
    page.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)
    return parsed


def test_the_page_is_well_formed_and_needs_nothing_else():
    page = html(make(rerankers=("rerank", "other")))
    parsed = check(page)
    assert page.startswith("<!DOCTYPE html>")
    assert parsed.tags.count("h1") == 1
    labels = [
        value for tag, name, value in parsed.attributes if (tag, name) == ("svg", "aria-label")
    ]
    assert len(labels) == parsed.tags.count("svg") == 4 + 2 * 3
    assert all(labels)
    scopes = [value for tag, name, value in parsed.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == parsed.tags.count("th")
    assert "http-equiv" in page


@pytest.mark.parametrize("shown", [html, fragment])
def test_every_cell_of_the_markdown_tables_is_there(shown):
    comparison = make(rerankers=("rerank", "other"))
    rows = [line for line in markdown(comparison).splitlines() if line.startswith("| ")]
    cells = {cell.strip(" *") for row in rows for cell in row.strip("|").split("|")} - {
        "---",
        "---:",
    }
    assert len(cells) > 40
    assert cells <= set(Parsed(shown(comparison)).cells)


def test_the_bars_tell_their_queries_and_plots_keep_text_as_text():
    page = html(make(count=5, text="wing & tail"))
    assert "<title>wing &amp; tail 1 (q1): +0.100</title>" in page
    assert "<title>wing &amp; tail 0 (q0): -0.050</title>" in page
    assert re.search(r"<text[^>]*>\+rerank</text>", page)


def test_documents_are_shown_with_relevance_and_movement():
    parsed = Parsed(html(make()))
    text = " ".join(" ".join(parsed.texts).split())
    for told in ("relevant: 2", "not relevant", "not judged", "came from 4", "was not in the list"):
        assert told in text
    assert "nDCG@10 0.250 → 0.750 (+0.500)" in text
    assert "nDCG@10 0.750 → 0.250 (-0.500)" in text


@pytest.mark.parametrize("text", INJECTIONS)
def test_no_text_becomes_markup(text):
    harmless, hostile = (make(text=one, rerankers=(one,)) for one in ("plain", text))
    with without_matplotlib():
        assert check(html(hostile)).tags == Parsed(html(harmless)).tags
        assert Parsed(fragment(hostile)).tags == Parsed(fragment(harmless)).tags


def test_no_text_becomes_markup_in_plots():
    harmless, hostile = (
        make(text=text, rerankers=names)
        for text, names in (("plain", ["plain"] * len(INJECTIONS)), (INJECTIONS[1], INJECTIONS))
    )
    for plot in (charts.latency, charts.differences, charts.sensitivity):
        drawn = plot(hostile, "p-")
        assert {one.strip()[:8] for one in Parsed(drawn).texts} >= {"+<script", "+]]><!--"}
        assert without_lines(drawn) == without_lines(plot(harmless, "p-"))
    bars = charts_of_one.per_query(hostile, hostile.results[1], "p-")
    assert (
        Parsed(bars).tags
        == Parsed(charts_of_one.per_query(harmless, harmless.results[1], "p-")).tags
    )
    check(html(make(text=" ".join(INJECTIONS), rerankers=(INJECTIONS[0],))))


def without_lines(svg):
    """Its elements, but those that only lead from a point to a name that stands elsewhere."""
    return [tag for tag in Parsed(svg).tags if tag not in {"path", "g"}]


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(), min_size=1))
def test_any_text_leaves_the_structure_as_it_is(text):
    hostile = make(count=2, text=text, rerankers=(text,), suite=text, notes=(text,))
    with without_matplotlib():
        harmless = html(make(count=2, notes=("plain",)))
        assert check(html(hostile)).tags == Parsed(harmless).tags


def test_the_same_comparison_gives_the_same_bytes_in_another_process(tmp_path):
    comparison = make()
    path = tmp_path / "comparison.pickle"
    path.write_bytes(pickle.dumps(comparison))
    code = (
        "import pickle, sys; from secondpass.evaluation.report.page import html; "
        "sys.stdout.buffer.write(html(pickle.load(open(sys.argv[1], 'rb'))).encode())"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "PYTHONHASHSEED": "5", "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1"},
        capture_output=True,
        check=True,
    )
    assert other.stdout.decode() == html(comparison) == html(comparison)


def test_settings_of_matplotlib_neither_change_nor_matter():
    matplotlib = pytest.importorskip("matplotlib")
    usual = html(make())
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert html(make()) == usual
        assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_page_says_what_brings_plots():
    with without_matplotlib():
        page = html(make())
    parsed = check(page)
    assert "svg" not in parsed.tags
    assert "secondpass[report]" in page
    with_plots = html(make())
    assert Parsed(with_plots).cells == parsed.cells
    assert "secondpass[report]" not in with_plots


def test_the_fragment_styles_nothing_but_itself():
    parsed = Parsed(fragment(make()))
    assert not {"style", "svg", "script"} & set(parsed.tags)
    assert not parsed.all("id")
    assert parsed.all("class") == ["secondpass-comparison"]


NOTHING = make(results=(Result("lexical", "skipped", "no corpus"),), baseline=None, queries={})
FREE = Cost({f"q{at}": 0.0 for at in range(6)}, cost=0.0)
EDGES = {
    "nothing ran": NOTHING,
    "no systems": replace(NOTHING, results=(), notes=(), settings={}),
    "one query": make(count=1, p=None, low=None, high=None),
    "no differences": with_reranker(make(), differences={}),
    "no gains": with_reranker(make(gain=0.0, p=1.0), gains=(), losses=(), moves=()),
    "no time": with_reranker(make(), cost=Cost()),
    "no time and no cost": with_reranker(make(), cost=FREE),
    "calls not known": with_reranker(make(), cost=replace(FREE, calls=None, pairs=None)),
    "first stage not measured": with_reranker(make(), first_stage="vector"),
    "only one rank": with_reranker(make(), moves=((1, 1),)),
    "no shuffles": with_reranker(make(), stability=Stability(0, 1.0, 1.0, "nDCG@10", ())),
    "more queries than bars": make(count=1_001),
    "many systems": make(rerankers=tuple(f"{'long-name-' * 9}{at}" for at in range(4))),
}


@pytest.mark.parametrize("comparison", EDGES.values(), ids=EDGES)
def test_a_page_can_be_made_of(comparison):
    check(html(comparison))
    Parsed(fragment(comparison))
    assert markdown(comparison).startswith("# ")


def test_the_best_of_a_column_is_marked_unless_all_are_alike():
    assert "<strong>" in html(make())
    alike = with_reranker(make(), evaluation=make().results[0].evaluation)
    with without_matplotlib():
        assert "<strong>" not in html(alike)
    assert "**0." not in markdown(alike)


def test_names_that_differ_at_their_end_differ_in_the_plots():
    comparison = make(rerankers=[f"{'a-long-name-' * 4}{at}" for at in range(3)])
    for plot in (charts.latency, charts.differences, charts.sensitivity):
        texts = {one.strip() for one in Parsed(plot(comparison, "p-")).texts}
        assert len({one for one in texts if one.startswith("+a-long")}) == 3


def test_no_plot_is_drawn_below_zero_where_nothing_is():
    nothing = evaluation(dict.fromkeys(make().queries, 0.0))
    comparison = make(gain=0.0, low=0.0, high=0.0)
    results = [replace(one, evaluation=one.evaluation and nothing) for one in comparison.results]
    comparison = replace(comparison, results=tuple(results))
    assert "\u2212" not in charts.latency(comparison, "p-").partition("label")[2]
    assert charts_of_one.per_query(comparison, comparison.results[1], "p-") is None


BETTER = Result("vector", "ran", evaluation=evaluation({"q0": 0.9}))


@pytest.mark.parametrize(
    ("comparison", "answer", "because"),
    [
        (make(), "The second pass pays.", "beyond chance (p = 0.010)"),
        (make(p=0.0001), "The second pass pays.", "(p < 0.001)"),
        (make(p=0.3), "The second pass may pay, but that may be chance.", "is not beyond chance"),
        (make(gain=-0.1, p=0.3), "The second pass does not pay: it may make", "0.1000 less"),
        (make(gain=-0.1), "The second pass does not pay: it makes things", "0.1000 less"),
        (make(gain=0.0, p=1.0), "The second pass makes no difference.", "the same as lexical"),
        (make(1, p=None), "1 query is too few to say whether the second pass", "4 better"),
        (make(5), "5 queries are too few to say whether the second", "with 6 queries or more"),
        (make(), "The second pass pays.", "42 ms per query (median), 1 call per query and 2.10"),
        (
            make(),
            "The second pass pays.",
            "16.7% of its rankings were not ok: 16.7% were degraded (a stage or a method failed) "
            "and 0.0% were unchanged.",
        ),
        (
            with_reranker(make(), statuses={"ok": 1, "degraded": 5}, fallbacks={"b": 3, "a": 2}),
            "The second pass pays.",
            "83.3% were degraded (ranked by the fallbacks a and b) and 0.0% were unchanged.",
        ),
        (make(rerankers=("a", "b")), "The second pass pays.", "corrected for 2 comparisons"),
        (make(rerankers=()), "No verdict.", "No reranker could be run"),
        (EDGES["no systems"], "No verdict.", "No reranker was asked for"),
        (EDGES["no differences"], "No verdict.", "no baseline"),
        (
            make(results=(*make().results, BETTER)),
            "The second pass pays.",
            "vector, without a second pass, measures more: 0.9000.",
        ),
        (
            replace(
                EDGES["no differences"], baseline="lexical+rerank", results=make().results[:2]
            ),
            "lexical+rerank over lexical+rerank pays.",
            "",
        ),
    ],
)  # fmt: skip
def test_the_verdict_says(comparison, answer, because):
    found = verdict(comparison)
    assert found.answer.startswith(answer)
    assert because in found.because
    with without_matplotlib():
        assert found.answer in Parsed(html(comparison)).texts


def test_a_sure_gain_is_preferred_to_a_larger_one_that_may_be_chance():
    small, large = make(gain=0.05).results[1], make(gain=0.2, p=0.4).results[1]
    large = replace(large, name="lexical+large")
    found = verdict(make(results=(make().results[0], large, small)))
    assert found.best is small
    assert "lexical+large measures more" in found.because
    assert "but that may be chance" in found.because


# ---------------------------------------------------------------------- in a browser


class Browser:
    """Chromium, spoken to by its debugging protocol over pipes."""

    def __init__(self, program, folder):
        theirs, ours = os.pipe()
        self.answers, written = os.pipe()
        self.questions = ours
        # Out of the way of 3 and 4, where the program looks for its ends.
        ends = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 20) for one in (theirs, written)]
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        quiet = os.open(os.devnull, os.O_RDWR)
        self.pid = os.posix_spawn(
            program,
            [program, *flags, f"--user-data-dir={folder}", "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, quiet, 1),
                (os.POSIX_SPAWN_DUP2, quiet, 2),
                *((os.POSIX_SPAWN_DUP2, end, at) for at, end in enumerate(ends, 3)),
            ],
            setpgroup=0,
        )
        for one in (theirs, written, quiet, *ends):
            os.close(one)
        self.buffer, self.count, self.session, self.events = b"", 0, None, []
        targets = self.ask("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.questions, json.dumps(message).encode() + b"\0")
        while (answer := self.read()).get("id") != self.count:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def read(self):
        while b"\0" not in self.buffer:
            part = os.read(self.answers, 1 << 16)
            assert part, "the browser has gone"
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)[
            "result"
        ].get("value")

    def close(self):
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.questions)
        os.close(self.answers)


@pytest.mark.long
def test_a_browser_shows_the_page_without_complaint_or_overflow(tmp_path):
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    pages = {
        "usual": make(rerankers=("rerank", "other")),
        "hostile": make(text="<script>document.title = 'taken'</script>" + "x" * 300),
        "long names": EDGES["many systems"],
    }
    browser = Browser(program, tmp_path / "profile")
    try:
        for name, comparison in pages.items():
            path = tmp_path / f"{name.replace(' ', '-')}.html"
            path.write_text(html(comparison), encoding="utf-8")
            for width in (375, 1280):
                browser.ask(
                    "Emulation.setDeviceMetricsOverride",
                    width=width,
                    height=900,
                    deviceScaleFactor=1,
                    mobile=False,
                )
                browser.ask("Page.navigate", url=path.as_uri())
                until = time.monotonic() + 30
                there = (
                    "document.readyState === 'complete' && "
                    f"location.href === {json.dumps(path.as_uri())}"
                )
                while not browser.value(there):
                    assert time.monotonic() < until
                browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
                wide = browser.value("document.documentElement.scrollWidth")
                assert wide <= width, (name, width, wide)
                assert browser.value("document.querySelectorAll('svg').length") > 3
                assert browser.value("document.title") != "taken"
    finally:
        browser.close()
    complaints = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
    assert not [one for one in browser.events if one.get("method") in complaints]
    asked = [
        one["params"]["request"]["url"]
        for one in browser.events
        if one.get("method") == "Network.requestWillBeSent"
    ]
    assert asked
    assert all(url.startswith("file:") and url.endswith(".html") for url in asked)
