"""Writes what type checkers read in place of a user: the Python blocks of README and docs, by page.

    python tools/typed_code.py build/typed

`make lint` then runs mypy, with ``--strict``, and pyright on that folder.
"""

import json
import re
import shutil
import sys
from pathlib import Path

from printed_commands import blocks

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "typed" / "program.py"
SOURCES = [ROOT / "src", *sorted((ROOT / "integrations").glob("*/src"))]


def write(folder: Path) -> None:
    """Write a module for each page with Python blocks, a user's program, and pyright's settings.

    The names of a page's blocks are those of one module, as the tests run them.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("integrations/*/*.md")]
    for page in pages:
        if code := blocks(page, "python"):
            name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
            (folder / f"{name}.py").write_text("\n\n".join(code), encoding="utf-8")
    shutil.copy(PROGRAM, folder)
    settings = {
        "include": ["."],
        "extraPaths": [str(source) for source in SOURCES],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",  # as of pyright itself
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
