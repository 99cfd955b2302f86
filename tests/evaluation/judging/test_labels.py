"""The mark beside a model's judgements, and a person's judgements that count."""

import json
from pathlib import Path

import pytest

from judged_folders import GRADES, mark, write_folder
from secondpass import Candidate
from secondpass.errors import InputError
from secondpass.formats.errors import FormatError
from secondpass_evaluation import write_qrels
from secondpass_evaluation.judging.judged_texts import (
    changed_documents,
    keep_hashes,
    read_hashes,
    text_hashes,
    write_hashes,
)
from secondpass_evaluation.judging.labels import (
    complete_queries,
    judged_by_path,
    locked,
    people_path,
    read_judged_by,
    read_people,
    with_people,
)
from secondpass_evaluation.significance import fewest_queries


@pytest.fixture
def qrels(tmp_path):
    return write_folder(tmp_path)


def test_what_is_written_is_read(qrels):
    assert read_judged_by(qrels, GRADES) == mark()
    assert "people" not in json.loads(judged_by_path(qrels).read_text())


def test_judgements_of_people_have_no_mark(tmp_path):
    assert read_judged_by(tmp_path / "qrels.txt", GRADES) is None


@pytest.mark.parametrize("name", ["qrels.txt", "qrels.tsv", "qrels.txt.gz", "qrels"])
def test_files_beside_judgements(name):
    path = Path("folder") / name
    assert judged_by_path(path) == Path("folder/qrels.judged-by.json")
    assert people_path(path) == Path("folder/qrels.people.txt")


def test_a_persons_judgements_are_read_with_the_mark(qrels):
    people = {"q2": {"a": 0, "c": 3, "other": 1}, "q3": {"b": 2}}
    write_qrels(people_path(qrels), people)
    assert read_people(qrels) == people
    # q1, which is second in the order, is not complete; the model has not judged `other`.
    assert read_judged_by(qrels, GRADES).people == {"q2": {"a": 0, "c": 3}}


@pytest.mark.parametrize(
    ("people", "complete"),
    [
        ({}, []),
        ({"q2": {"a": 1}}, []),
        ({"q2": {"a": 1, "c": 1}}, ["q2"]),
        ({"q2": {"a": 1, "c": 1}, "q3": {"b": 1}}, ["q2"]),
        ({"q2": {"a": 1, "c": 1}, "q1": {"a": 1, "b": 1}}, ["q2", "q1"]),
    ],
    ids=["none", "half", "first", "gap", "two"],
)
def test_complete_queries_begin_the_order(people, complete):
    assert complete_queries(["q2", "not judged", "q1", "q3"], GRADES, people) == complete
    assert [*with_people(mark(), GRADES, people).people] == complete


@pytest.mark.parametrize(
    ("count", "note"),
    [
        (0, "the figures stand on its grades alone"),
        (1, f"1 of 3 queries is judged by a person, too few to correct its grades ("
            f"{fewest_queries()} are needed)"),
        (2, "2 of 3 queries are judged by a person, too few"),
        (fewest_queries(), "figures that are called corrected stand on both"),
    ],
)  # fmt: skip
def test_the_note_says_what_figures_stand_on(count, note):
    text = mark(people={str(number): {"a": 1} for number in range(count)}).note
    assert text.startswith("judged by the model m (umbrela-1, 2026-11-24), not by people: ")
    assert note in text


def test_the_note_says_how_much_has_no_grade():
    assert "no grade" not in mark().note
    gaps = "15 of 20 documents of the pools, 75.0%, have no grade and count as not relevant"
    assert mark(ungraded=15).gaps == gaps
    assert gaps in mark(ungraded=15).note
    one = mark(documents=3, ungraded=1).gaps
    assert one == "1 of 4 documents of the pools, 25.0%, has no grade and counts as not relevant"


@pytest.mark.parametrize(
    "text",
    ["[]", '{"format": 2}', '{"format": 1, "model": "m"}', "\udcff", "[" * 100_000],
    ids=["list", "version", "keys", "bytes", "deep"],
)
def test_a_damaged_mark_is_an_error(qrels, text):
    judged_by_path(qrels).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(FormatError, match=r"qrels\.judged-by\.json"):
        read_judged_by(qrels, GRADES)


@pytest.mark.parametrize(
    "change",
    [
        {"date": 5},
        {"queries": "many"},
        {"seed": True},
        {"order": [["q1"]]},
        {"grades": {"1": "a"}},
        {"people": {}},
        {"other": "x"},
    ],
    ids=str,
)
def test_a_mark_with_a_wrong_value_is_an_error(qrels, change):
    path = judged_by_path(qrels)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FormatError, match="is not in the format of `secondpass judge`"):
        read_judged_by(qrels, GRADES)


def test_only_a_folder_with_a_mark_is_locked(tmp_path):
    with pytest.raises(InputError, match="has no judgements of a model"), locked(tmp_path):
        pass
    write_folder(tmp_path)
    with locked(tmp_path):
        pass


def test_hashes_that_are_written_are_read(tmp_path):
    hashes = text_hashes(
        {"q": {"a": 1, "b": 0, "far": 1}},
        [Candidate("\ud800 x", "a")],
        {"q": [Candidate("other", "a"), Candidate("y", "b")]},
    )
    assert [*hashes["q"]] == ["a", "b"]
    write_hashes(tmp_path / "qrels.txt", hashes)
    assert (tmp_path / "qrels.texts.json").is_file()
    assert read_hashes(tmp_path / "qrels.txt") == hashes
    assert read_hashes(tmp_path / "other.txt") == {}


@pytest.mark.parametrize("content", ["", "[1]", '{"q": 1}', "[" * 100_000, "\xff"])
def test_malformed_files_are_refused(tmp_path, content):
    (tmp_path / "qrels.texts.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(FormatError, match="is not a file of hashes"):
        read_hashes(tmp_path / "qrels.txt")


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        ([{"q": {"a": "1"}}], []),
        ([{"q": {"a": "2"}}], ["a"]),
        ([{"q": {"a": "2"}}, {"q": {"a": "1"}}], []),
        ([{"q": {"b": "2"}}, {}], []),
    ],
)
def test_a_document_has_changed_if_none_of_its_texts_was_judged(now, changed):
    assert changed_documents({"q": {"a": "1"}, "other": {"a": "3"}}, *now) == changed


def test_the_hash_of_what_was_judged_is_kept(tmp_path):
    path = tmp_path / "qrels.txt"
    keep_hashes(path, {"q": {"a#1": "1"}}, {"q": {"a#1": "2", "a#2": "3", "b": "4"}})
    assert read_hashes(path) == {"q": {"a#1": "1", "a#2": "3"}}
    keep_hashes(tmp_path / "no folder" / "qrels.txt", {}, {"q": {"a#1": "2"}})
