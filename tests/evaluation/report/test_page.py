import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from reports import EDGES, INJECTIONS, Parsed, check, make, with_reranker, without
from secondpass_evaluation import Cost
from secondpass_evaluation.report.markdown import report as markdown
from secondpass_evaluation.report.page import fragment
from secondpass_evaluation.report.page import page as html
from secondpass_evaluation.report.text import NONE

AT_EDGES = with_reranker(
    make(count=1_001),
    cost=Cost(dict.fromkeys(make(count=1_001).queries, 0.0), cost=0.0),
)
"""A comparison in which every plot is at an edge of its own."""


@pytest.fixture(scope="module")
def plotted() -> str:
    """The page of the usual comparison, with its plots."""
    return html(make())


def unplotted(comparison) -> str:
    """The page of a comparison without plots, which take most of its time."""
    with without("matplotlib"):
        return html(comparison)


def test_well_formed_and_self_contained_whatever_the_texts():
    hostile = " ".join(INJECTIONS.values())
    page = html(make(text=hostile, rerankers=(INJECTIONS["script"], "other")))
    parsed = check(page)
    assert page.startswith("<!DOCTYPE html>")
    assert parsed.tags.count("h1") == 1
    labels = [
        value for tag, name, value in parsed.attributes if (tag, name) == ("svg", "aria-label")
    ]
    assert len(labels) == parsed.tags.count("svg") == 2 + 2 * 1
    assert all(labels)
    scopes = [value for tag, name, value in parsed.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == parsed.tags.count("th")
    assert "http-equiv" in page


@pytest.mark.parametrize("render", [unplotted, fragment])
def test_same_cells_as_markdown(render):
    comparison = make(rerankers=("rerank", "other"))
    rows = [line for line in markdown(comparison).splitlines() if line.startswith("| ")]
    cells = {cell.strip(" *") for row in rows for cell in row.strip("|").split("|")}
    cells -= {"---", "---:"}
    assert len(cells) > 40
    assert cells <= set(Parsed(render(comparison)).cells)


@pytest.mark.parametrize("comparison", EDGES.values(), ids=EDGES)
def test_edges(comparison):
    check(unplotted(comparison))
    Parsed(fragment(comparison))


def test_all_plots_at_their_edges():
    page = check(html(AT_EDGES))
    assert page.tags.count("svg") == 3


@pytest.mark.long
@pytest.mark.parametrize("comparison", EDGES.values(), ids=EDGES)
def test_edges_with_plots(comparison):
    check(html(comparison))


def test_documents_with_relevance_and_moves():
    text = " ".join(" ".join(Parsed(unplotted(make())).texts).split())
    for part in ("relevant: 2", "not relevant", "not judged", "came from 4", "was not in the list"):
        assert part in text
    assert "nDCG@10 0.250 → 0.750 (+0.500)" in text
    assert "nDCG@10 0.750 → 0.250 (-0.500)" in text


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
def test_text_stays_text(text):
    plain, hostile = (make(text=each, rerankers=(each,)) for each in ("plain", text))
    page = check(unplotted(hostile))
    assert page.tags == Parsed(unplotted(plain)).tags
    assert Parsed(fragment(hostile)).tags == Parsed(fragment(plain)).tags
    if text.isprintable():
        assert f"{text} passage" in page.texts


@pytest.mark.long
def test_reproducible_in_another_process(plotted, tmp_path):
    path = tmp_path / "comparison.pickle"
    path.write_bytes(pickle.dumps(make()))
    code = (
        "import pickle, sys; comparison = pickle.load(open(sys.argv[1], 'rb')); "
        "sys.stdout.buffer.write(comparison.to_html().encode())"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "PYTHONHASHSEED": "5", "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1"},
        capture_output=True,
        check=True,
        timeout=300,
    )
    assert other.stdout.decode() == plotted


def test_without_matplotlib(plotted):
    page = unplotted(make())
    parsed = check(page)
    assert "svg" not in parsed.tags
    assert ".[report]" in page
    assert check(plotted).cells == parsed.cells
    assert ".[report]" not in plotted


def test_fragment_styles_only_itself():
    parsed = Parsed(fragment(make()))
    assert not {"style", "svg", "script"} & set(parsed.tags)
    assert not parsed.all("id")
    assert parsed.all("class") == ["secondpass-comparison"]


def test_navigation_lists_all_sections():
    parsed = check(unplotted(make(rerankers=("rerank", "other"))))
    headings = [value for tag, name, value in parsed.attributes if (tag, name) == ("h2", "id")]
    assert [link[1:] for link in parsed.all("href")] == headings
    assert headings == [
        *("overview", "quality", "differences", "cost", "issues", "order", "not-run"),
        *("system-2", "system-3", "queries", "settings"),
    ]


def test_when_with_what_and_where():
    settings = {
        "date": "2026-01-02T03:04:05Z",
        "versions": {"secondpass": "0.1.0", "python": "3.11.2"},
        "machine": {"processor": "<Some> processor", "cores": 2},
        "command": "secondpass eval suite",
    }
    parsed = check(unplotted(make(settings=settings)))
    line = " \N{MIDDLE DOT} ".join(
        (settings["date"], "secondpass 0.1.0", "Python 3.11.2", "<Some> processor", "2 cores",
         "secondpass eval suite")
    )  # fmt: skip
    assert line in parsed.texts
    assert {"versions: python", "machine: processor", "command"} <= set(parsed.cells)


def test_all_queries_can_be_read_without_the_script():
    comparison = make(count=40)
    assert set(comparison.queries.values()) <= set(check(unplotted(comparison)).cells)


def test_configurations_are_shown():
    page = unplotted(make(settings={}))
    assert "Configuration of <bdi>lexical+rerank</bdi>" in page
    assert re.search(r"&#34;type&#34;: &#34;rerank&#34;", page)


# ---------------------------------------------------------------------- the page in chromium


class Browser:
    """Chromium, spoken to by its debugging protocol over pipes."""

    def __init__(self, program, folder):
        theirs, self.questions = os.pipe()
        self.answers, written = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        # It reads from 3, and writes to 4.
        command = ["bash", "-c", f'exec "$0" "$@" 3<&{theirs} 4>&{written}', program, *flags]
        self.process = subprocess.Popen(
            [*command, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(theirs, written),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(written)
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
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.questions)
        os.close(self.answers)

    def open(self, path, width):
        """Show a page in a window of this width, with everything that can be opened open."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        address = path.as_uri()
        self.ask("Page.navigate", url=address)
        until = time.monotonic() + 60
        while self.value("document.readyState + ' ' + location.href") != f"complete {address}":
            assert time.monotonic() < until
        self.value("document.querySelectorAll('details').forEach(d => d.open = true)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.mark.long
def test_no_errors_and_no_overflow(browser, tmp_path):
    pages = {
        "usual": make(rerankers=("rerank", "other")),
        "hostile": make(text="<script>document.title = 'taken'</script>" + "x" * 300),
        "long names": EDGES["many systems"],
    }
    browser.events.clear()
    for name, comparison in pages.items():
        path = tmp_path / f"{name.replace(' ', '-')}.html"
        path.write_text(html(comparison), encoding="utf-8")
        for width in (375, 1280):
            browser.open(path, width)
            wide = browser.value("document.documentElement.scrollWidth")
            assert wide <= width, (name, width, wide)
            assert browser.value("document.querySelectorAll('svg').length") >= 3
            assert browser.value("document.title") != "taken"
    complaints = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
    assert not [one for one in browser.events if one.get("method") in complaints]
    requests = [one for one in browser.events if one.get("method") == "Network.requestWillBeSent"]
    asked = [one["params"]["request"]["url"] for one in requests]
    assert asked
    assert all(url.startswith("file:") and url.endswith(".html") for url in asked)


_COLUMN = """[...document.querySelectorAll('table[aria-label="{table}"] tbody tr')]
    .map(row => row.cells[{column}].textContent.trim())"""


@pytest.mark.long
def test_headings_sort_the_rows(browser, tmp_path):
    comparison = make(count=30, rerankers=("b", "a"))
    path = tmp_path / "page.html"
    path.write_text(html(comparison), encoding="utf-8")
    browser.open(path, 1280)

    def column(table, number):
        return browser.value(_COLUMN.format(table=table, column=number))

    def click(table, number):
        head = f"document.querySelectorAll('table[aria-label=\"{table}\"] th button')[{number}]"
        browser.value(f"{head}.click()")
        return browser.value(f"{head}.parentNode.getAttribute('aria-sort')")

    before = column("All queries", 1)
    assert before == list(comparison.queries)
    assert click("All queries", 2) == "descending"
    values = [float(text) for text in column("All queries", 2)]
    assert values == sorted(values, reverse=True)
    assert click("All queries", 2) == "ascending"
    assert [float(text) for text in column("All queries", 2)] == values[::-1]
    assert click("All queries", 2) is None
    assert column("All queries", 1) == before
    assert click("All queries", 1) == "ascending"
    assert column("All queries", 1) == [f"q{index}" for index in range(30)]
    assert click("Cost", 0) == "ascending"
    assert column("Cost", 0) == ["lexical", "lexical+a", "lexical+b"]
    assert click("Cost", 4) == "descending"
    assert column("Cost", 4)[-1] == "0"
    assert click("Cost", 6) == "descending"
    assert column("Cost", 6)[-1] == NONE  # what is not known comes last


@pytest.mark.long
def test_a_wide_table_scrolls_below_its_fixed_first_column(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(html(make(rerankers=("rerank", "other"))), encoding="utf-8")
    browser.open(path, 400)
    left = "document.querySelector('table[aria-label=Cost] tbody th').getBoundingClientRect().left"
    second = left.replace("tbody th", "tbody td")
    before = browser.value(left), browser.value(second)
    browser.value("document.querySelector('table[aria-label=Cost]').parentNode.scrollLeft = 200")
    after = browser.value(left), browser.value(second)
    assert after[0] == before[0] >= 0
    assert after[1] == before[1] - 200
