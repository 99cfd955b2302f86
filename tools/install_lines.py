"""The pip install lines of README, docs, examples and messages, and whether they need a checkout.

    python tools/install_lines.py    # writes every line in the form that RELEASED decides

Before the first release nothing is on the package index, so the lines install from a checkout, in
whose root they are run. The release sets RELEASED and runs this script; the lines then name what is
on the index. ``tests/test_publishing.py`` fails if a line has the other form.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

RELEASED = False
"""Whether the distributions are on the package index."""

ROOT = Path(__file__).resolve().parent.parent
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
AFTER_RELEASE = "docs/publishing/secondpass.md"
"""A page that another site gets after a release."""

WITHOUT_CHECKOUT = "examples/recipes/quality_gate_workflow.yaml"
"""Runs on machines without a checkout, which install from the repository."""

REPOSITORY = "git+https://github.com/secondpass/secondpass"
FOLDERS = {
    "secondpass": ".",
    "secondpass-haystack": "./integrations/haystack",
    "llama-index-postprocessor-secondpass": "./integrations/llama_index",
}
"""Distribution -> its folder in a checkout."""

_QUOTE = r"\\?[\"']|&quot;"
_TARGET = r"[A-Za-z.][\w./-]*(?:\[[\w,.{}-]+\])?(?:==[\d.]+| @ git\+[\w:/.-]+)?"
_ARGUMENT = rf"(?:-e )?(?:(?:{_QUOTE}){_TARGET}(?:{_QUOTE})|{_TARGET})"
LINE = re.compile(rf"((?:Run|From a checkout of secondpass): )?pip install((?: +{_ARGUMENT})+)")


def install_lines(root: Path) -> dict[tuple[str, ...], list[str]]:
    """The requirements of each line, as after the release, with the files that have it."""
    found: dict[tuple[str, ...], list[str]] = {}
    for path in files(root):
        name = path.relative_to(root).as_posix()
        for line in LINE.finditer(path.read_text(encoding="utf-8")):
            requirements = tuple(requirements_of(line[2]))
            if any("{" in one for one in requirements):  # a template of a message
                continue
            names = found.setdefault(requirements, [])
            if name not in names:
                names.append(name)
    return found


def files(root: Path) -> list[Path]:
    return sorted({path for place in PLACES for path in root.glob(place)})


def requirements_of(arguments: str) -> list[str]:
    """The requirements that the arguments of a line stand for, as after the release."""
    names = {folder: name for name, folder in FOLDERS.items()}
    requirements = []
    for argument in shlex.split(re.sub(_QUOTE, '"', arguments)):
        if argument != "-e":
            target, bracket, extras = argument.partition(" @ ")[0].partition("[")
            requirements.append(names.get(target, target) + bracket + extras)
    if any(_name_of(one) in FOLDERS and one != "secondpass" for one in requirements):
        requirements = [one for one in requirements if one != "secondpass"]
    return requirements


def written(text: str, *, released: bool, name: str = "") -> str:
    """A text with all lines in one of the forms.

    Args:
        text: of a file.
        released: whether the distributions are on the package index.
        name: of the file, relative to the root.
    """

    def line(match: re.Match[str]) -> str:
        requirements = requirements_of(match[2])
        ours = [one for one in requirements if _name_of(one) in FOLDERS]
        if not ours:
            return match[0]
        run = "From a checkout of secondpass: " if match[1] else ""
        if released or name == AFTER_RELEASE:
            arguments, run = requirements, "Run: " if match[1] else ""
        elif name == WITHOUT_CHECKOUT:
            arguments = [f"{one} @ {REPOSITORY}" if one in ours else one for one in requirements]
        else:
            arguments = in_checkout(requirements)
        quote = re.search(_QUOTE, match[2])
        return f"{run}pip install {_quoted(arguments, quote[0] if quote else chr(34))}"

    return LINE.sub(line, text)


def in_checkout(requirements: Sequence[str]) -> list[str]:
    """The arguments that install requirements from a checkout, and link to it."""
    names = [_name_of(one) for one in requirements]
    # An adapter requires the core, which the index does not have either.
    arguments = [] if "secondpass" in names else ["-e", "."]
    for name, requirement in zip(names, requirements, strict=True):
        if name in FOLDERS:
            arguments += ["-e", FOLDERS[name] + requirement.removeprefix(name)]
        else:
            arguments.append(requirement)
    return arguments


def _name_of(requirement: str) -> str:
    return re.split(r"\[|==", requirement)[0]


def _quoted(arguments: Sequence[str], quote: str) -> str:
    return " ".join(
        f"{quote}{argument}{quote}" if re.search(r"[\[ ]", argument) else argument
        for argument in arguments
    )


def main() -> None:
    for path in files(ROOT):
        text = path.read_text(encoding="utf-8")
        new = written(text, released=RELEASED, name=path.relative_to(ROOT).as_posix())
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
