"""The steps that `benchmarks/first_steps.py` times are those of the README, and are really run."""

import json
from pathlib import Path

import pytest
from benchmarks import first_steps

README = Path(__file__).parents[2] / "README.md"


def test_steps_are_those_of_the_readme():
    steps = first_steps.steps_of(README.read_text(encoding="utf-8"))
    install, example, extras, *commands = steps
    assert install == ("console", 'pip install "secondpass[embedded]"')
    assert example[0] == "python"
    assert "Reranker.from_preset" in example[1]
    assert extras[1].startswith('pip install "secondpass[')
    verbs = [code.split()[:2] for _, code in commands]
    assert verbs == [
        ["secondpass", verb] for verb in ("example", "rerank", "index", "query", "eval")
    ]


def test_each_question_of_the_stranger_is_answered_by_a_file(tmp_path):
    first_steps.write_own(tmp_path)
    lines = (tmp_path / "questions.jsonl").read_text().splitlines()
    assert len(lines) == 10
    for line in lines:
        (path,) = json.loads(line)["relevant"]
        if path.startswith("docs/"):
            assert (tmp_path / "own" / path).is_file()
        else:
            assert path.startswith("packages/")


def test_the_descriptions_of_packages_become_documents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    exec(first_steps.PACKAGES, {})
    assert (tmp_path / "own/packages/rich.md").read_text(encoding="utf-8").strip()


@pytest.mark.long
def test_steps_run_in_an_environment_of_their_own(tmp_path):
    steps = [
        ("console", "python -c 'import sys; print(sys.prefix)' > prefix"),
        ("python", "import os; open('cache', 'w').write(os.environ['PIP_NO_CACHE_DIR'])"),
    ]
    measured = first_steps.measure(steps, tmp_path, tmp_path)
    assert [name for name, _ in measured] == ["python -m venv", steps[0][1], "the first example"]
    assert all(seconds > 0 for _, seconds in measured)
    assert Path((tmp_path / "prefix").read_text().strip()).resolve() == (tmp_path / ".venv")
    assert (tmp_path / "cache").read_text() == "1"
