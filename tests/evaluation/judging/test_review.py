"""A person's answers about a folder of a model's judgements."""

import pytest

from judged_folders import GRADES, QUERIES, write_folder
from secondpass.errors import InputError
from secondpass_evaluation.judging.folder import POOL, Review
from secondpass_evaluation.judging.labels import judged_by_path


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
