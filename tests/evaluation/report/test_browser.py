"""The page in Chromium."""

import fcntl
import json
import os
import shutil
import signal
import time

import pytest

from reports import EDGES, make
from secondpass_evaluation.report.page import page as html
from secondpass_evaluation.report.text import NONE


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

    def open(self, path, width):
        """Show a page in a window of this width, with everything that can be opened open."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.ask("Page.navigate", url=path.as_uri())
        until = time.monotonic() + 60
        there = (
            f"document.readyState === 'complete' && location.href === {json.dumps(path.as_uri())}"
        )
        while not self.value(there):
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
            assert browser.value("document.querySelectorAll('svg').length") > 3
            assert browser.value("document.title") != "taken"
    complaints = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
    assert not [one for one in browser.events if one.get("method") in complaints]
    asked = [
        one["params"]["request"]["url"]
        for one in browser.events
        if one.get("method") == "Network.requestWillBeSent"
    ]
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
