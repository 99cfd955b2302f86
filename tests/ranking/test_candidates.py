"""Candidates: what is taken for one, and what is refused by name."""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import SimpleNamespace
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from fakes import ByTable
from raising_values import Raises, Unprintable
from rankings import order
from secondpass import Candidate, InputError, Reranker, fuse
from secondpass.ranking.blending import Blend
from secondpass.ranking.candidates import first_stage_scores, retrieval_score


@pytest.mark.parametrize("key", ["txt", "Text", "texts"])
def test_a_misspelt_text(key):
    with pytest.raises(InputError, match=f"did you mean 'text', not '{key}'"):
        Reranker("lexical").rerank("q", [{key: "a", "id": 1}])


HITS = {
    "_source.text": {"_id": "e", "_score": 2.5, "_source": {"title": "t", "text": "pears"}},
    "metadata.text": {"id": "e", "score": 2.5, "metadata": {"text": "pears"}},
    "payload.chunk": {"id": "e", "score": 2.5, "payload": {"chunk": "pears"}},
}


@pytest.mark.parametrize("path", HITS)
def test_the_field_that_a_message_names_shows_the_text_of_a_hit(path):
    with pytest.raises(InputError, match=rf"such as \[{re.escape(path)}\]"):
        Reranker("lexical").rerank("pears", [HITS[path]])
    (item,) = Reranker("lexical", render={"fields": [path]}).rerank("pears", [HITS[path]])
    assert (item.id, item.score, item.status) == ("e", 2.5, "scored")


def test_strings_mappings_candidates_and_ranked_items_go_in():
    given = ["aaa", {"text": "b", "id": 7, "score": 0.5, "url": "u", "metadata": {"k": 0}}]
    ranking = Reranker(ByTable()).rerank(
        "q", [*given, Candidate("cc", id="c"), {"content": "dddd"}]
    )
    assert order(ranking) == "ddddaaaccb"
    last = ranking[-1]
    assert (last.id, last.score, last.position, last.rank) == (7, 0.5, 1, 4)
    assert last.metadata == {"url": "u", "k": 0, "rerank_score": 1.0}
    again = Reranker(ByTable({"b": 9.0})).rerank("q", ranking)
    assert again[0].candidate is last.candidate


@dataclass
class Note:
    text: str
    id: str | None = None
    score: float | None = None
    page: int = 4


@dataclass
class Tactic:
    name: str
    steps: str


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Document(page_content="a", id="d", metadata={"k": 1}), ("a", "d", None, {"k": 1})),
        (Note("a", "n", 0.5), ("a", "n", 0.5, {"page": 4})),
        (SimpleNamespace(text="a"), ("a", None, None, {})),
        (SimpleNamespace(text="a", id=7, score=0.5, metadata={"k": 1}), ("a", 7, 0.5, {"k": 1})),
        (SimpleNamespace(text="a", meta={"k": 1}, other=3), ("a", None, None, {"k": 1})),
        (SimpleNamespace(text="a", originalScore=0.5), ("a", None, 0.5, {"originalScore": 0.5})),
        ({"text": "a", "originalScore": 0.5}, ("a", None, 0.5, {"originalScore": 0.5})),
        ({"text": "a", "score": None, "originalScore": 0}, ("a", None, 0, {"originalScore": 0})),
        ({"text": "a", "score": 1, "originalScore": 5}, ("a", None, 1, {"originalScore": 5})),
        (SimpleNamespace(content="a", node_id="n"), ("a", "n", None, {})),
        ({"page_content": "a", "metadata": {"k": 1}}, ("a", None, None, {"k": 1})),
        (SimpleNamespace(content="a", id=0, node_id="n"), ("a", 0, None, {"node_id": "n"})),
        # Chunks of one document share its id.
        (SimpleNamespace(text="a", doc_id=4), ("a", None, None, {"doc_id": 4})),
        ({"text": "a", "doc_id": 4}, ("a", None, None, {"doc_id": 4})),
        ({"text": "a", "_id": "e"}, ("a", "e", None, {"_id": "e"})),
        ({"text": "a", "id": 0, "_id": "e"}, ("a", 0, None, {"_id": "e"})),
        ({"text": "a", "_score": 2.5}, ("a", None, 2.5, {"_score": 2.5})),
        ({"text": "a", "score": 1, "_score": 2.5}, ("a", None, 1, {"_score": 2.5})),
        (SimpleNamespace(text="a", _id="e", _score=2.5), ("a", None, None, {})),
        ({"text": "a", "page_content": "b"}, ("a", None, None, {"page_content": "b"})),
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_with_a_text_go_in(value, expected):
    (item,) = Reranker(ByTable()).rerank("q", [value])
    metadata = {**expected[3], "rerank_score": item.rerank_score}
    assert (item.text, item.id, item.score, item.metadata) == (*expected[:3], metadata)


def test_dataclasses_without_a_text_need_fields_to_show():
    tactic = Tactic("name", "steps")
    with pytest.raises(InputError, match="has no 'text'; its keys are: 'name', 'steps'"):
        Reranker(ByTable()).rerank("q", [tactic])
    reranker = Reranker(ByTable(), render={"fields": ["name", "steps"]})
    (item,) = reranker.rerank("q", [tactic])
    assert item.metadata == {"name": "name", "steps": "steps", "rerank_score": item.rerank_score}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (5, "give a string, a mapping, a Candidate or an object with a text, not an int"),
        (Note, "not a type"),
        (SimpleNamespace(text=5), "not a SimpleNamespace"),
        ((Document(page_content="secret"), 0.5), "for a pair with a score, give {'text': …, "),
        (("secret", 0.5, 1), "not a tuple$"),
    ],
    ids=["number", "type", "number as text", "pair", "triple"],
)
def test_other_objects_are_refused_without_their_text(value, problem):
    with pytest.raises(InputError, match=problem) as caught:
        Reranker(ByTable()).rerank("q", [value])
    assert "secret" not in str(caught.value)


def test_a_data_frame_is_no_sequence_of_its_column_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["secret"], "id": ["a"]})
    with pytest.raises(InputError, match=r"not a DataFrame; its rows are df.to_dict\('records'\)"):
        Reranker(ByTable()).rerank("q", frame)
    (item,) = Reranker(ByTable()).rerank("q", frame.to_dict("records"))
    assert item.id == "a"


class Raising:
    @property
    def text(self):
        raise RuntimeError("secret")


def test_an_object_that_raises_is_refused_without_its_message():
    with pytest.raises(InputError, match=r"candidates\[0\]: cannot be read \(RuntimeError\)"):
        Reranker(ByTable()).rerank("q", [Raising()])


@pytest.mark.parametrize("settings", [{}, {"dedupe": True}, {"render": {"fields": ["n", "text"]}}])
@pytest.mark.parametrize(
    "odd",
    [
        Candidate("a", metadata=None),  # type: ignore[arg-type]
        Candidate("a", metadata={"n": 10**5000}),
        Candidate("a", metadata={"n": Unprintable()}),
        Candidate("a", id=[1]),  # type: ignore[arg-type]
        Candidate("a", id=Unprintable()),  # type: ignore[arg-type]
        Candidate("a", score=Unprintable()),  # type: ignore[arg-type]
        Candidate("a", score="0.5"),  # type: ignore[arg-type]
    ],
    ids=lambda odd: type(odd).__name__,
)
def test_odd_candidates_are_kept(odd, settings):
    reranker = Reranker(ByTable(), blend={"original": 0.5, "normalize": "minmax"}, **settings)
    ranking = reranker.rerank("q", [odd, "bb"])
    assert sorted(ranking.order) == [0, 1]
    assert ranking.report.status == "ok"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Candidate("b", metadata=[1]), ".metadata: give a mapping, not a list"),  # type: ignore[arg-type]
        ({"text": "", "metadata": 3}, ".metadata: give a mapping, not an int"),
        ({"text": "", "content": ""}, ": has both 'text' and 'content'"),
        ({"a passage that is the key of a mapping turned around": 1}, "'a passage that is th'; "),
    ],
)
def test_a_wrong_candidate_is_named(value, message):
    with pytest.raises(InputError) as caught:
        Reranker(ByTable()).rerank("q", ["a", value])
    assert str(caught.value).startswith("candidates[1]")
    assert message in str(caught.value)


def test_dedupe_keeps_the_best_of_each_id_in_the_place_of_the_first():
    given = [
        {"text": "a", "id": "1", "score": 0.1},
        {"text": "x"},
        {"text": "b", "id": "2"},
        {"text": "a", "id": "1", "score": 0.9},
        {"text": "x"},
        {"text": "b", "id": "2", "score": -4.0},
    ]
    scorer = ByTable({"a": 1.0, "b": 1.0, "x": 1.0})
    assert Reranker(scorer).rerank("q", given).order == (0, 1, 2, 3, 4, 5)
    ranking = Reranker(scorer, dedupe=True).rerank("q", given)
    assert ranking.order == (3, 1, 5, 4)
    assert ranking.report.left_out == {"duplicate": (0, 2)}
    assert Reranker(scorer).rerank("q", given, dedupe=True).order == (3, 1, 5, 4)


class Uncountable(list):
    def __len__(self):
        raise RuntimeError("PASSAGE")

    __iter__ = __len__


@pytest.mark.parametrize("where", ["len", "iter", "getitem"])
def test_values_that_raise_have_nothing_to_show(where):
    values = {"a": Raises(where), "b": Uncountable(), "c": Unprintable(), "d": [Unprintable()]}
    fields = ["a", "a|count", "a.text", "b", "b|count", "c", "d", "text"]
    reranker = Reranker("lexical", render={"fields": fields})
    report = reranker.rerank("cat", [Candidate("a cat", metadata=values)]).report
    assert report.status == "ok"
    assert "PASSAGE" not in str(report.to_dict())


def test_booleans_of_numpy_are_no_scores():
    for value in (np.array(True), True, 10**400, "1"):
        assert retrieval_score(Candidate("a", score=value)) is None
    for value in (np.float32(0.5), np.int64(1), np.array(0.5)):
        assert retrieval_score(Candidate("a", score=value)) == float(value)


class Incomparable:
    def __eq__(self, other):
        raise RuntimeError("PASSAGE")

    __hash__ = None


def test_a_key_beside_and_inside_metadata():
    nan = float("nan")
    same = {"text": "a", "year": 1, "x": nan, "metadata": {"year": 1.0, "x": nan, "z": 2}}
    [item] = Reranker("lexical").rerank("cat", [same])
    assert item.metadata.keys() == {"year", "x", "z", "rerank_score"}
    for one, other in (([1, 2], [1, 2]), ([], [])):
        row = {"text": "a", "year": np.array(one), "metadata": {"year": np.array(other)}}
        assert Reranker("lexical").rerank("q", [row]).report.status == "ok"
    different = [(np.array([1, 2]), np.array([1, 3])), (np.array([1, 2]), np.array([1]))]
    for one, other in ((1, 2), (Incomparable(), Incomparable()), ([1], "1"), *different):
        wrong = {"text": "a", "year": one, "metadata": {"year": other}}
        with pytest.raises(InputError, match=r"candidates\[0\]: year is both"):
            Reranker("lexical").rerank("cat", [wrong])


@pytest.mark.parametrize(
    ("row", "hint"),
    [({"id": "1", "snippet": "a cat"}, r"\[snippet\]"), ({"title": "a cat"}, r"\[title\]")],
)
def test_rows_without_text(row, hint):
    with pytest.raises(InputError, match=f"has no 'text'.*render.fields.*{hint}"):
        Reranker("lexical").rerank("cat", [row])
    assert Reranker("lexical", render={"fields": ["snippet|title"]}).rerank("cat", [row])[0]


class RaisingText(str):
    def raises(self, *_args):
        raise RuntimeError("a secret text")

    __len__ = __str__ = __iter__ = __hash__ = splitlines = strip = raises


def test_texts_of_a_class_that_raises():
    reranker = Reranker("lexical", render={"fields": ["text", "title"], "labels": True})
    text = RaisingText("bananas")
    candidates = [Candidate(text), Candidate("a", metadata={"title": text}), Candidate("b")]
    scores = [item.rerank_score for item in reranker.rerank("bananas", candidates)]
    assert min(scores[:2]) > 0
    assert scores[2] == 0
    assert Reranker("lexical").rerank("bananas", candidates).order[0] == 0


def scored_candidates(scores, ids=None):
    names = ids or [None] * len(scores)
    return [Candidate(str(i), names[i], score) for i, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "distances"),
    [
        ([0.1, 0.2, 0.3], [1, 2 / 3, 1 / 3]),
        ([0.1, 0.1, 0.3], [1, 2 / 3, 1 / 3]),
        ([0.1, None, 0.2, float("nan"), 0.3], [1, None, 3 / 5, None, 1 / 5]),
        ([-3, 0, 10**300], [1, 2 / 3, 1 / 3]),
        ([0.1, 0.2], None),
        ([0.1, None, 0.2], None),
        ([0.2, 0.2, 0.2], None),
        ([0.1, 0.3, 0.2], None),
        ([0.3, 0.2, 0.1], None),
        ([], None),
    ],
)
def test_scores_that_only_rise_are_distances(scores, distances):
    found, are_distances = first_stage_scores(scored_candidates(scores))
    assert are_distances == (distances is not None)
    known = [None if score is None or score != score else score for score in scores]
    assert found == pytest.approx(distances or known)


DISTANCES = [0.2, 0.5, 0.9]


@pytest.mark.parametrize(
    ("blend", "finals"),
    [(Blend(0.5, "minmax"), [1, 0.5, 0]), (Blend(0.5, "zscore"), [1.2247449, 0, -1.2247449])],
)
def test_distances_do_not_turn_a_blend_upside_down(blend, finals):
    scorer = ByTable({"0": 0.9, "1": 0.6, "2": 0.3}, score_kind="probability")
    ranking = Reranker(scorer, blend=blend).rerank("q", scored_candidates(DISTANCES))
    assert ranking.order == (0, 1, 2)
    assert [item.final_score for item in ranking] == pytest.approx(finals)
    assert [item.score for item in ranking] == DISTANCES
    assert [issue.code for issue in ranking.report.issues] == ["scores_ascending"]
    terms = ranking.explain(position=0).blend
    weighted = terms.rerank if terms.original is None else (terms.original + terms.rerank) / 2
    assert weighted == pytest.approx(finals[0])


@pytest.mark.parametrize("blend", [Blend(0.5, "minmax"), Blend(0.5, "none")])
def test_two_scores_that_rise_are_named(blend):
    scorer = ByTable({"0": 0.9, "1": 0.6}, score_kind="probability")
    ranking = Reranker(scorer, blend=blend).rerank("q", scored_candidates([0.2, 0.5]))
    issues = {issue.code: issue.message for issue in ranking.report.issues}
    assert [*issues] == (["scores_ascending"] if blend.normalize == "minmax" else [])
    assert all("if these are distances" in message for message in issues.values())
    falling = Reranker(scorer, blend=blend).rerank("q", scored_candidates([0.5, 0.2]))
    assert falling.report.issues == ()


def test_of_two_copies_whose_scores_rise_the_issue_says_which_is_kept():
    ranking = Reranker(ByTable(), dedupe=True).rerank("q", scored_candidates([0.2, 0.5], ["a"] * 2))
    assert ranking.report.left_out == {"duplicate": (0,)}
    (issue,) = ranking.report.issues
    assert (issue.code, "counts as better" in issue.message) == ("scores_ascending", True)


def test_the_copy_with_the_smallest_distance_is_kept():
    given = scored_candidates([*DISTANCES, 1.0], ["a", "b", "a", "c"])
    ranking = Reranker(ByTable(), dedupe=True).rerank("q", given)
    assert ranking.report.left_out == {"duplicate": (2,)}
    assert [issue.code for issue in ranking.report.issues] == ["scores_ascending"]


class Level(IntEnum):
    LOW = 1


class Name(StrEnum):
    FIRST = "a"


WAYS = {
    "mapping": lambda given: {"id": given, "text": "a"},
    "candidate": lambda given: Candidate("a", given),
    "object": lambda given: SimpleNamespace(text="a", id=given),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        *[(3, 3), (0, 0), ("3", "3"), (None, None), (3.5, 3.5), (True, True), (("a", 1), ("a", 1))],
        *[(np.int64(3), 3), (np.uint8(0), 0), (np.array(3), 3), (Level.LOW, 1), (2**80, 2**80)],
        *[(np.str_("a"), "a"), (Name.FIRST, "a"), (UUID(int=1), UUID(int=1))],
        *[(float("nan"), None), (np.float32("nan"), None)],
    ],
    ids=lambda value: f"{type(value).__name__} {value}",
)
def test_ids_come_back_as_plain_integers_and_strings_or_as_given(way, given, expected):
    ranking = Reranker("lexical").rerank("a", [WAYS[way](given)])
    assert (ranking[0].id, type(ranking[0].id)) == (expected, type(expected))
    for record in (ranking.to_dict(), ranking.explain(position=0).to_dict()):
        json.dumps(record)


def test_ids_of_pandas_and_torch():
    pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    frame = pandas.DataFrame({"id": [7, None], "text": ["a", "b"]}).astype({"id": "Int64"})
    found = [*frame.to_dict("records"), Candidate("c", torch.tensor(8)), Candidate("d", pandas.NaT)]
    ranking = Reranker(ByTable(), dedupe=True).rerank("q", found)
    assert [item.id for item in ranking] == [7, None, 8, None]
    assert {type(item.id) for item in ranking} == {int, type(None)}


identifiers = (
    st.integers()
    | st.integers(-(2**63), 2**63 - 1).map(np.int64)
    | st.integers(0, 255).map(np.uint8)
    | st.text()
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")).map(np.str_)
    | st.uuids()
    | st.none()
)


@settings(deadline=None)
@given(st.lists(identifiers, min_size=1, max_size=5), st.sampled_from([*WAYS]))
def test_the_id_of_each_item_equals_that_which_went_in(ids, way):
    ranking = Reranker("lexical").rerank("a", [WAYS[way](given) for given in ids])
    for item in ranking:
        given = ids[item.position]
        assert item.id == given
        assert type(item.id) in {int, str, UUID, type(None)}
        assert ranking.explain(position=item.position).id == given
    assert len(Reranker("lexical", dedupe=True).rerank("a", [WAYS[way](each) for each in ids])) == (
        len({str(given) for given in ids if given is not None}) + ids.count(None)
    )
    json.dumps(ranking.to_dict())


def test_ids_of_other_kinds_are_strings_in_records():
    own, other = UUID(int=1), UUID(int=2)
    found = [{"id": own, "text": "a pear", "score": "?"}, {"id": other, "text": "a plum"}]
    ranking = Reranker("lexical").rerank("plum", found)
    record = json.loads(json.dumps(ranking.to_dict()))
    assert [item["id"] for item in record["ranking"]] == [str(other), str(own)]
    assert record["report"]["issues"][0]["ids"] == [str(own)]
    assert ranking.report.issues[0].ids == (own,)
    packed = ranking.pack(100)
    assert [source.id for source in packed.sources] == [other, own]
    assert [source["id"] for source in json.loads(json.dumps(packed.to_dict()))["sources"]] == [
        str(other),
        str(own),
    ]
    assert ranking.explain(own).id == ranking.explain(str(own)).id == own
    fused = fuse({"a": found, "b": [{"id": str(other), "text": "a plum"}]})
    assert {candidate.id for candidate in fused} == {own, other}


def test_an_explanation_takes_integers_of_numpy():
    ranking = Reranker("lexical").rerank("a", ["b", {"id": 7, "text": "a"}])
    assert ranking.explain(np.int64(7)) == ranking.explain(position=np.int64(1))
    with pytest.raises(InputError, match="no candidate has the id 8; known are: '7'"):
        ranking.explain(np.int64(8))


def test_ids_in_the_repr_are_as_they_are_written():
    found = [
        {"id": np.int64(7), "text": "a"},
        {"id": "x", "text": "b"},
        Candidate("c", UUID(int=1)),
    ]
    assert "first 7, 'x'" in repr(Reranker(ByTable()).rerank("q", found))


class RaisingNumber:
    def __repr__(self):  # the name of a test, in each worker the same
        return "RaisingNumber"

    def __float__(self):
        raise RuntimeError("secret")


@pytest.mark.parametrize(
    ("score", "example"),
    [
        ("0.1", "a str"),
        ("high", "a str"),
        (b"0.1", "bytes"),
        (True, "a bool"),
        (np.bool_(True), "a bool"),
        ([0.1], "a list"),
        (RaisingNumber(), "a RaisingNumber"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (-float("inf"), "-inf"),
        (np.float32("nan"), "nan"),
        (np.float64("inf"), "inf"),
        (Decimal("NaN"), "nan"),
        (10**400, "inf"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("settings", [{}, {"dedupe": True}])
def test_a_score_that_is_no_finite_number_is_an_issue(score, example, settings):
    given = [{"text": "a", "score": 0.9}, {"text": "b", "score": score, "id": "x"}, "c"]
    ranking = Reranker(ByTable(), strict=True, **settings).rerank("a query", given)
    message = (
        f"these retrieval scores are not finite numbers, such as {example}; they count as missing"
    )
    message += ", so convert them with float()" if isinstance(score, str) else ""
    assert [(issue.code, issue.message) for issue in ranking.report.issues] == [
        ("score_unreadable", message)
    ]
    assert ranking.report.issues[0].positions == (1,)
    assert ranking.report.issues[0].ids == ("x",)
    assert ranking.report.status == "ok"
    assert sorted(ranking.order) == [0, 1, 2]
    (item,) = (item for item in ranking if item.position == 1)
    assert item.score is score
    shown = str(ranking.explain(position=1))
    assert "no score" in shown
    assert f"score_unreadable: {message}" in shown
    assert "score_unreadable" not in str(ranking.explain(position=0))


FINITE = [0.1, 1, -0.0, 1e308, np.float32(0.5), np.float64(0.5), np.int64(3), Decimal("0.1")]


@pytest.mark.parametrize(
    "scores",
    [FINITE, [1e308] * 3, [None] * 3, [None, 0.5], [], *([score] for score in FINITE)],
    ids=repr,
)
def test_finite_and_missing_scores_are_no_issue(scores):
    assert Reranker(ByTable()).rerank("q", scored_candidates(scores)).report.issues == ()


odd_scores = (
    st.none() | st.floats() | st.integers() | st.booleans() | st.text(max_size=3) | st.just(10**400)
)


@given(st.lists(odd_scores, max_size=6) | st.lists(st.floats(), max_size=6))
def test_every_score_is_read_or_missing_or_named(scores):
    candidates = scored_candidates(scores)
    ranking = Reranker(ByTable()).rerank("q", candidates)
    named = {position for issue in ranking.report.issues for position in issue.positions}
    for position, candidate in enumerate(candidates):
        read = retrieval_score(candidate) is not None
        assert [candidate.score is None, read, position in named].count(True) == 1
