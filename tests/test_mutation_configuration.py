"""The configuration of the mutation tests: it names what exists."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = tomllib.loads((ROOT / "tools" / "mutation.toml").read_text(encoding="utf-8"))
MODULES = CONFIGURATION["modules"]


@pytest.mark.parametrize("name", MODULES)
def test_files_and_tests_exist(name):
    paths = [MODULES[name]["file"], *MODULES[name]["tests"]]
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", MODULES)
def test_equivalent_mutants_change_existing_code(name):
    code = (ROOT / MODULES[name]["file"]).read_text(encoding="utf-8")
    joined = " ".join(line.strip() for line in code.splitlines())
    mutants = [one for one in CONFIGURATION["equivalent"] if one["module"] == name]
    assert [one["before"] for one in mutants if one["before"] not in joined] == []


def test_equivalent_mutants_are_complete():
    for mutant in CONFIGURATION["equivalent"]:
        assert mutant.keys() == {"module", "before", "after", "why"}
        assert mutant["module"] in MODULES
        assert mutant["before"] != mutant["after"]
        assert mutant["why"]
