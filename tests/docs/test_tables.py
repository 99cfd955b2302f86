"""Tables of the site and of a report in Chromium, at the widths of a laptop and a phone.

None is cut, and neither is its first column; a name in that is not broken.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from html import unescape
from pathlib import Path

import pytest

from secondpass_evaluation import compare, make_suite

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PROGRAMS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (1280, 390)

PAGES = (
    *("settings.html", "evidence.html", "data/tables.html", "data/speed.html", "command.html"),
    *("coming-from.html", "troubleshooting.html"),
)

MEASURE = """
<!doctype html><title>host</title><pre id="result"></pre><script>
const cuts = (view, box) => view.getComputedStyle(box).overflowX !== "visible";
const frame = document.createElement("iframe");
frame.style = "border: 0; width: WIDTHpx; height: 2000px";
frame.onload = () => setTimeout(() => {
  const page = frame.contentDocument, view = frame.contentWindow, found = [];
  for (const table of page.querySelectorAll("table")) {
    const right = table.getBoundingClientRect().right;
    let box = table;  // the nearest element that cuts the table, if one does
    while (box && !(cuts(view, box) &&
           (box === table ? box.scrollWidth > box.clientWidth + 1 :
            box.getBoundingClientRect().right < right - 1)))
      box = box.parentElement;
    const style = box && view.getComputedStyle(box);
    const scrolls = box && ["auto", "scroll"].includes(style.overflowX);
    const hint = box && style.backgroundImage.includes("gradient");
    const edge = box ? box.getBoundingClientRect().right : right;
    found.push({table: table.innerText.slice(0, 60), visible: !box || scrolls && hint, edge});
  }
  const firsts = [...page.querySelectorAll("td:first-child, th:first-child")];
  const cells = firsts.filter(cell => cell.scrollWidth > cell.clientWidth + 1);
  const names = [...page.querySelectorAll("td:first-child code.name")];
  const broken = names.filter(name => name.getClientRects().length > 1);
  const texts = list => list.map(one => one.innerText);
  const width = page.documentElement.scrollWidth;
  document.getElementById("result").textContent =
    JSON.stringify({found, width, names: names.length, broken: texts(broken), cut: texts(cells)});
}, 1500);
frame.src = "PAGE";
document.body.append(frame);
</script>
"""


@pytest.fixture(scope="module")
def chromium():
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None and importlib.util.find_spec("playwright"):
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            program = playwright.chromium.executable_path
    if program is None or not Path(program).exists():
        pytest.skip("no Chromium: install one, or name its program in CHROMIUM")
    return program


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site and a report, served on loopback."""
    if not importlib.util.find_spec("mkdocs"):
        pytest.skip("no MkDocs: see docs/requirements.txt")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=600)
    words = ("owl", "cat", "dog", "fox", "bat", "elk")
    suite = make_suite(
        "animals",
        {word: f"the {word}" for word in words},
        {word: {word: 1} for word in words},
        corpus=[{"id": word, "text": f"a {word} sleeps"} for word in words],
    )
    html = compare({"a long name of a reranker": "lexical"}, suite, shuffles=2).to_html()
    (folder / "report.html").write_text(html, encoding="utf-8")
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", [*PAGES, "report.html"])
def test_no_table_is_cut(site, chromium, page, width):
    folder, address = site
    host = folder / "host.html"
    host.write_text(MEASURE.replace("WIDTH", str(width)).replace("PAGE", page), encoding="utf-8")
    shown = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu",
         "--window-size=1400,2100", "--virtual-time-budget=20000", "--dump-dom",
         f"{address}/host.html"],
        capture_output=True, text=True, check=True, timeout=300,
    ).stdout  # fmt: skip
    text = re.search(r'<pre id="result">(.*?)</pre>', shown, re.DOTALL)[1]
    result = json.loads(unescape(text))
    tables = result["found"]
    assert tables
    assert result["width"] <= width + 1
    assert [one["table"] for one in tables if one["edge"] > width + 1] == []
    assert [one["table"] for one in tables if not one["visible"]] == []
    assert (result["broken"], result["cut"]) == ([], [])
    assert result["names"] or page in {"data/tables.html", "report.html"}
