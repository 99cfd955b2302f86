"""The commands that the documentation prints in consoles, and which of them nothing runs."""

import re
from pathlib import Path

NOT_RUN = {
    "git clone": "downloads this repository; `make` is run in a clone",
    ". .venv/bin/activate": "the environment that `make` creates; tests have one of their own",
    "pytest tests/": "tests of this project",
    "secondpass export": "converts a model of the hub; tests/cli/test_export.py does it",
    "secondpass judge --config": "asks a language model; evaluation/cli/test_judge.py does it",
    "secondpass judge --into": "asks a person; evaluation/cli/test_review.py does it",
    "secondpass doctor --preset cohere --network": "opens connections to other machines",
    "secondpass serve": "ends on a signal; tests/server/cli/test_serve.py does it",
    "secondpass job": "needs Ray; tests/ray/cli/test_job.py does it",
    "secondpass mcp": "runs until it is stopped; tests/server/mcp does it",
}
"""Commands that no test of the documentation runs, with the reason."""


def blocks(page: Path, *languages: str) -> list[str]:
    """Code blocks of a page, with the indentation of the list item that they may stand in."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [code for language, code in found if language in languages]


def run_lines(block: str) -> list[str]:
    """The lines of a console block that can be run."""
    return [line for line in block.splitlines() if not line.startswith(tuple(NOT_RUN))]


def pages_with_commands(root: Path) -> dict[Path, list[list[str]]]:
    """The pages of the docs that run secondpass: the lines of each of their consoles."""
    pages = {}
    for page in sorted((root / "docs").rglob("*.md")):
        consoles = [run_lines(block) for block in blocks(page, "console", "bash")]
        if any(line.startswith("secondpass ") for lines in consoles for line in lines):
            pages[page] = consoles
    return pages
