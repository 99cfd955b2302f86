"""The table of examples has every example, and every one of its links leads to one."""

import re

import pytest

from example_commands import EXAMPLES, commands, run
from unset_models import MODEL_VARIABLES

TABLE = EXAMPLES / "README.md"
LINKS = re.findall(r"\]\(([^)]+)\)", TABLE.read_text(encoding="utf-8"))
IGNORED = {"__pycache__", "README.md", "requirements.txt", "requirements-stores.txt"}


def examples():
    """Everything in examples/ and recipes/, but settings with the name of their program."""
    for folder, prefix in ((EXAMPLES, ""), (EXAMPLES / "recipes", "recipes/")):
        programs = [path.stem for path in folder.glob("*.py")]
        for path in sorted(folder.iterdir()):
            belongs = path.suffix == ".yaml" and path.stem.startswith(tuple(programs))
            if path.name not in {*IGNORED, "recipes"} and not (belongs and prefix):
                yield prefix + path.name


def test_every_entry_exists_and_is_there_once():
    assert [link for link in LINKS if not (EXAMPLES / link).exists()] == []
    assert sorted(LINKS) == sorted(set(LINKS))


def test_every_example_is_in_the_table():
    assert set(examples()) <= set(LINKS)


@pytest.mark.parametrize("name", ["docs_search", "planning_search"])
def test_an_example_of_reranking_reranks_as_printed(name, monkeypatch, capsys):
    for variable in MODEL_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    (command,) = (line for line in commands(TABLE) if f"examples/{name} " in line)
    assert run(command, monkeypatch) == 0
    assert re.search(r"^ok: .*ordered by listwise", capsys.readouterr().out, re.MULTILINE)
