from fakes import ByTable
from secondpass import Reranker
from secondpass_evaluation import compare
from topic_suites import SUITE, TOPICS, ByGrade, passages, suite_of


def test_changes_with_documents() -> None:
    table = {f"{grade} wombats see owls": grade for grade in range(4)}
    table |= {f"{grade} wombats see seas": -grade for grade in range(4)}
    table |= {f"{grade} wombats see {topic}": 0.0 for grade in range(4) for topic in TOPICS[2:]}
    suite = suite_of(passages(1, 3, 0, 2))
    found = compare({"x": Reranker(ByTable(table))}, suite, first_stages=["lexical"])
    result = found["lexical+x"]
    assert [change.query for change in result.gains] == ["q-owls"]
    assert [change.query for change in result.losses] == ["q-seas"]
    change = result.gains[0]
    assert (change.text, change.after) == ("owls", 1.0)
    assert change.before == found["lexical"].evaluation.per_query["nDCG@10"]["q-owls"]
    assert [(one.rank, one.id, one.relevance, one.before) for one in change.top] == [
        (1, "owls-3", 3, 2), (2, "owls-2", 2, 4), (3, "owls-1", 1, 1), (4, "owls-0", 0, 3),
    ]  # fmt: skip
    assert [(one.id, one.before) for one in change.top_before] == [
        ("owls-1", 3), ("owls-3", 1), ("owls-0", 4), ("owls-2", 2),
    ]  # fmt: skip
    assert change.top[0].text == "3 wombats see owls"
    assert sorted(result.moves[:3]) == [(1, 3), (2, 1), (4, 2)]


def test_largest_first() -> None:
    # Each further topic is left a little less wrong.
    table = {
        f"{grade} wombats see {topic}": float(grade if grade >= at else -grade)
        for at, topic in enumerate(TOPICS)
        for grade in range(4)
    }
    result = compare({"x": Reranker(ByTable(table))}, SUITE, first_stages=["lexical"])["lexical+x"]
    gains = [change.after - change.before for change in result.gains]
    assert gains == sorted(gains, reverse=True)
    assert 1 < len(gains) <= 5


def test_equal_changes_in_query_order() -> None:
    found = compare(
        {"x": Reranker(ByGrade()), "y": Reranker(ByGrade(-1))},
        suite_of(passages(1, 0, 3, 2)),
        first_stages=["lexical"],
    )
    first = [f"q-{topic}" for topic in TOPICS[:5]]
    assert [change.query for change in found["lexical+x"].gains] == first
    assert [change.query for change in found["lexical+y"].losses] == first
