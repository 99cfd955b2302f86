"""Where judgements may be written."""

import pytest

from judged_folders import GRADES, POOLS, QUERIES, write_folder
from secondpass import Candidate
from secondpass.errors import InputError
from secondpass.formats.errors import FormatError
from secondpass_evaluation.judging.folder import (
    POOL,
    Review,
    check_folder,
    check_ids,
    pool_lines,
    read_pool,
)
from secondpass_evaluation.judging.labels import judged_by_path

ALWAYS = ["qrels.tsv", "qrels/test.tsv", "qrels.txt.gz", "qrels"]
"""Would be read instead of `qrels.txt`, or by its mark."""


@pytest.mark.parametrize("name", [*ALWAYS, "qrels.txt", "queries.jsonl", "pool.jsonl"])
def test_what_no_model_made_is_not_overwritten(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("q 0 d 1\n")
    with pytest.raises(InputError, match=f"has {name}, which is not marked as a model's"):
        check_folder(tmp_path)


def test_a_models_judgements_may_be_replaced(tmp_path):
    check_folder(tmp_path / "new")
    write_folder(tmp_path)
    check_folder(tmp_path)
    (tmp_path / "qrels.tsv").write_text("")
    with pytest.raises(InputError, match=r"has qrels\.tsv, which"):
        check_folder(tmp_path)


def test_ids_have_to_fit_into_the_files():
    check_ids(POOLS)
    with pytest.raises(FormatError, match="query id 'q 1' has white space"):
        check_ids({"q 1": ()})
    with pytest.raises(FormatError, match="document id 'd 1' has white space"):
        check_ids({"q": (Candidate("pears", "d 1"),)})


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "pool.jsonl"
    path.write_text("".join(pool_lines(QUERIES, POOLS)))
    assert read_pool(path) == (QUERIES, POOLS)


def test_lone_surrogates_are_replaced():
    (line,) = pool_lines({"q": "a \ud800"}, {"q": (Candidate("b \udfff", "d"),)})
    line.encode()
    assert "a ?" in line


@pytest.mark.parametrize(
    "record",
    [
        '{"query_id": "q", "query": "a"}',
        '{"query_id": "q", "documents": []}',
        '{"query_id": "q", "query": "a", "documents": 5}',
        '{"query_id": "q", "query": "a", "documents": [{"id": "d"}]}',
        '{"query_id": "q", "query": "a", "documents": ["d"]}',
    ],
    ids=["no documents", "no query", "number", "no text", "strings"],
)
def test_malformed_lines_are_errors(tmp_path, record):
    path = tmp_path / "pool.jsonl"
    path.write_text(record + "\n")
    with pytest.raises(FormatError, match=r"pool\.jsonl.*needs 'query_id', 'query' and"):
        read_pool(path)


@pytest.fixture
def review(tmp_path):
    write_folder(tmp_path)
    return Review(tmp_path)


def test_questions_come_in_the_order_of_the_folder(review):
    assert review.order == ["q2", "q1", "q3"]
    assert review.queries == QUERIES
    assert review.documents("q1") == {"a": "text a", "b": "text b"}
    assert review.open_documents("q2") == ["a", "c"]


def test_only_whole_queries_from_the_beginning_count(review, tmp_path):
    review.answer("q2", "a", 3)
    review.answer("q2", "c", 3)
    review.answer("q3", "b", 1)
    review.answer("q1", "b", 0)
    assert review.complete() == ["q2"]
    again = Review(tmp_path)  # each answer was written at once
    assert again.people == review.people
    assert again.open_documents("q1") == ["a"]
    again.answer("q1", "a", 2)
    assert again.complete() == ["q2", "q1", "q3"]
    assert again.judged_by.people.keys() == {"q2"}  # when it was read


def test_agreement_is_of_the_documents_that_both_judged(review):
    assert review.agreement()[0] == 0
    for query, grades in GRADES.items():
        for document, grade in grades.items():
            review.answer(query, document, grade)
    assert review.agreement() == (5, 1.0)


@pytest.mark.parametrize(
    ("document", "grade", "message"),
    [
        ("a", 4, "must be 0 to 3, not 4"),
        ("a", "3", "must be 0 to 3, not '3'"),
        ("zzz", 1, "query 'q1' has no document 'zzz' to judge"),
    ],
)
def test_wrong_answers_are_refused(review, document, grade, message):
    with pytest.raises(InputError, match=message):
        review.answer("q1", document, grade)
    assert review.people == {}


def test_a_folder_without_a_models_judgements(tmp_path):
    with pytest.raises(InputError, match=r"has no qrels\.txt; let a model judge first"):
        Review(tmp_path)
    qrels = write_folder(tmp_path)
    (tmp_path / POOL).write_text("")
    with pytest.raises(InputError, match="lacks documents of query 'q2'"):
        Review(tmp_path)
    judged_by_path(qrels).unlink()
    with pytest.raises(InputError, match=r"qrels\.txt is not marked as a model's"):
        Review(tmp_path)
