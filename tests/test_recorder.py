"""The recorder of tools/ finds changes of what public doors return, and nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import recorder

ROOT = Path(__file__).resolve().parents[1]
PARTS = ["src", "integrations/haystack/src", "integrations/llama_index/src"]
MUTANTS = {
    "unjudged candidates are merged elsewhere": (
        "ranking/partial_results.py",
        "ratio = count / missing",
        "ratio = 1.0",
        "core.result.items[].position",
    ),
    "a blend has another weight": (
        "ranking/blending.py",
        "rest = self.original, 1 - self.original",
        "rest = self.original, 1.01 - self.original",
        "core.result.items[].final_score",
    ),
    "a prompt has other words": (
        "prompts/template.py",
        "The query again: ",
        "The query: ",
        "core.prompts[]",
    ),
    "a request has another member": (
        "data/rerank_apis/cohere.yaml",
        "document_tokens: 4096",
        "document_tokens: 4000",
        "wire.requests[].body.max_tokens_per_doc",
    ),
    "an error has other words": (
        "settings/messages.py",
        "unknown key",
        "unknown setting",
        "configuration.result.error",
    ),
}


def recorded(packages, path, first=0, cases=200):
    places = [str(packages / part) for part in PARTS]
    ended = subprocess.run(
        [sys.executable, recorder.__file__, "record", path, f"--first={first}", f"--cases={cases}"],
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    return path


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return recorded(ROOT, tmp_path_factory.mktemp("before") / "records.jsonl")


@pytest.mark.long
def test_the_same_code_has_the_same_records(before, tmp_path, capsys):
    assert recorder.compare(before, recorded(ROOT, tmp_path / "again.jsonl"), 1) == 0
    assert capsys.readouterr().out == "200 cases, 0 differ\n"


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found_where_it_changes_something(mutant, before, tmp_path, capsys):
    name, text, other, place = MUTANTS[mutant]
    for part in PARTS:
        shutil.copytree(ROOT / part, tmp_path / part)
    path = tmp_path / "src/secondpass" / name
    assert text in path.read_text()
    path.write_text(path.read_text().replace(text, other))
    after = recorded(tmp_path, tmp_path / "after.jsonl")
    assert recorder.compare(before, after, 1) > 0
    assert f" {place}\n" in capsys.readouterr().out


def test_a_difference_is_named_by_its_place():
    before = {"items": [{"id": 1, "score": 2}, {"id": 2}], "text": "a", "gone": None}
    after = {"items": [{"id": 1, "score": 3}, {"id": 2}], "text": "a"}
    assert [*recorder.differences(before, after, "core")] == [
        ("core.gone", None, "(absent)"),
        ("core.items[].score", 2, 3),
    ]


def test_labels_and_times_are_left_out():
    assert recorder.without_labels("x7n, then a1b, then x7n") == "label0, then label1, then label0"
    assert recorder.plain({"seconds": 3.2, "score": 0.1}) == {"score": "0.1"}
