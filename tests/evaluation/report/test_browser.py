"""The page in Chromium."""

import fcntl
import json
import os
import shutil
import signal
import time

import pytest

from reports import EDGES, make
from secondpass.evaluation.report.page import page as html


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
def test_no_errors_and_no_overflow(tmp_path):
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
