"""What the commands of README and docs write into a clone does not show in ``git status``."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITES = re.compile(r"(?:cat > |--into |--output |-o |method\.store=)([\w./-]+)")
QUOTED = re.compile(r"Path\(\"([\w./-]+)\"\)\.write_text")
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)


def written() -> set[str]:
    found = set()
    for page in PAGES:
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            found.update(WRITES.findall(block), QUOTED.findall(block))
    return {name for name in found if not name.isupper()}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone")
def test_files_that_commands_write_are_ignored():
    names = written()
    assert {"rerank.yaml", "demo/results", "demo/tuned.yaml", "passages.store"} <= names
    folders = [f"{name}/" for name in sorted(names)]
    result = subprocess.run(
        ["git", "check-ignore", "--no-index", *sorted(names), *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    ignored = {name.rstrip("/") for name in result.stdout.split()}
    assert names - ignored == set()
