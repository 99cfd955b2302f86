"""The pip install lines in README, docs, examples and messages of the packages."""

import html
import re
from pathlib import Path

PLACES = (
    "README.md",
    "docs/**/*.md",
    "examples/**/*.ipynb",
    "examples/**/*.md",
    "examples/**/*.py",
    "examples/**/*.yaml",
    "integrations/*/README.md",
    "integrations/*/src/**/*.py",
    "src/**/*.j2",
    "src/**/*.py",
)
REQUIREMENT = r"[A-Za-z][\w.-]*(?:\[[\w,-]+\])?(?:==[\d.]+)?"
PLACEHOLDER = "secondpass[extra]"
LINE = re.compile(rf'pip install((?: +(?:"{REQUIREMENT}"|{REQUIREMENT}))+)')


def install_lines(root: Path) -> dict[tuple[str, ...], list[str]]:
    """The requirements of each install line, with the files that have it."""
    found: dict[tuple[str, ...], list[str]] = {}
    for path in sorted({path for place in PLACES for path in root.glob(place)}):
        text = html.unescape(path.read_text(encoding="utf-8")).replace('\\"', '"')
        for line in LINE.findall(text):
            requirements = tuple(re.findall(REQUIREMENT, line))
            if PLACEHOLDER in requirements:
                continue
            files = found.setdefault(requirements, [])
            if (name := path.relative_to(root).as_posix()) not in files:
                files.append(name)
    return found
