"""The steps that `benchmarks/first_steps.py` times are those of the README, and are really run."""

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
    assert extras[1].startswith("pip install ")
    verbs = [code.split()[:2] for _, code in commands]
    assert verbs == [["secondpass", verb] for verb in ("rerank", "index", "query", "eval", "plan")]
    assert not [code for _, code in commands if "#" in code]


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
