"""The example corpus of Python's own documentation, and the judgements that go with it."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import python_docs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DATA = EXAMPLES / "data"

# The judgements were made on Python 3.11.7, and later releases of 3.11 change no name. Another
# version may lack a few of the texts (3.11.2 has no docstring for `asyncio.Timeout`), and the
# figures of the demo bear that many without a visible change.
SAME_TEXTS = (3, 11, 7) <= sys.version_info[:3] < (3, 12)
MAX_MISSING_SHARE = 0.0 if SAME_TEXTS else 0.03


@pytest.fixture(scope="module")
def corpus():
    return python_docs.passages()


@pytest.fixture(scope="module")
def questions():
    lines = (DATA / "python-docs.queries.tsv").read_text(encoding="utf-8").splitlines()
    assert all(line.count("\t") == 1 for line in lines)
    pairs = [(qid, text) for qid, _, text in (line.partition("\t") for line in lines)]
    assert len({qid for qid, _ in pairs}) == len(pairs)
    return dict(pairs)


@pytest.fixture(scope="module")
def judgements():
    judged = defaultdict(dict)
    for line in (DATA / "python-docs.qrels").read_text(encoding="utf-8").splitlines():
        qid, iteration, key, grade = line.split(" ")
        assert iteration == "0"
        assert key not in judged[qid], f"{qid} judges {key} twice"
        judged[qid][key] = int(grade)
    return dict(judged)


def run(code, *options):
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.long  # two processes
def test_each_process_builds_the_same_in_silence():
    code = (
        "import hashlib, python_docs;"
        "print(hashlib.sha256(repr(python_docs.passages()).encode()).hexdigest())"
    )
    first, second = (run(code, "-W", "error") for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert re.fullmatch("[0-9a-f]{64}\n", first.stdout)
    assert first.stdout == second.stdout


def test_stripped_docstrings_are_an_error():
    done = run("import python_docs; python_docs.passages()", "-OO")
    assert done.returncode != 0
    assert "RuntimeError: this Python has no docstrings" in done.stderr


def test_parts_of_a_text_are_numbered_from_one(corpus):
    parts = defaultdict(list)
    for passage in corpus:
        parts[python_docs.key(passage.id)].append(passage.id)
    assert len({passage.id for passage in corpus}) == len(corpus)
    for key, ids in parts.items():
        assert ids == ([key] if len(ids) == 1 else [f"{key}#{n + 1}" for n in range(len(ids))])


def test_one_text_has_one_name(corpus):
    names = {python_docs.key(p.id) for p in corpus}
    assert "os.path.join" in names
    assert "posixpath.join" not in names
    assert "random.shuffle" in names
    assert "random.Random.shuffle" not in names
    assert "random.getrandbits" in names
    assert "secrets.randbits" not in names
    assert "open" in names
    assert "io.open" not in names
    docstrings = [p.text for p in corpus if p.kind != "topic" and "#" not in p.id]
    assert len(docstrings) == len(set(docstrings))


def test_no_special_or_private_names(corpus):
    names = [p.id for p in corpus if p.kind != "topic"]
    assert [name for name in names if any(part[0] == "_" for part in name.split("."))] == []


def test_every_question_is_judged_and_answered(questions, judgements):
    assert set(judgements) == set(questions)
    assert [qid for qid, grades in judgements.items() if max(grades.values()) < 2] == []
    assert {grade for grades in judgements.values() for grade in grades.values()} == {0, 1, 2, 3}


def test_relevant_keys_are_in_the_corpus(corpus, judgements):
    known = {python_docs.key(p.id) for p in corpus}
    relevant = {key for grades in judgements.values() for key, grade in grades.items() if grade}
    missing = sorted(relevant - known)
    assert len(missing) <= MAX_MISSING_SHARE * len(relevant), missing
