"""The graded strategy: answers are sent into it, then asked of plain functions."""

import json

import pytest

from fakes import Model, graded, judge, number_of, numbered, shown_in
from secondpass import ConfigurationError, Reranker
from secondpass.questions import Completion
from secondpass.strategies.graded import Graded

SIZES = [
    # candidates, batch size, candidates of each question
    (1, 20, [1]),
    (21, 20, [10, 11]),
    (100, None, [100]),
    (5, 1, [1] * 5),
]


def texts_of(count):
    return numbered([index % 11 for index in range(count)])


def grades(**changes):
    """An honest reply, changed by hand; a key is the number of the passage."""

    def reply(passages):
        given = {label: number_of(text) for label, text in passages.items()}
        for key, value in changes.items():
            label = next(one for one in passages if number_of(passages[one]) == int(key.strip("_")))
            given[label] = value
        return json.dumps({label: one for label, one in given.items() if one != "absent"})

    return reply


@pytest.mark.parametrize(("count", "batch_size", "sizes"), SIZES)
def test_batches_in_one_round(count, batch_size, sizes):
    texts = texts_of(count)
    judgement, asks = judge(Graded(Model(), batch_size=batch_size), texts, graded)
    assert len(asks) == 1
    assert [question.documents for question in asks[0].questions] == sizes
    passages = [
        text for question in asks[0].questions for text in shown_in(question.request).values()
    ]
    assert passages == texts
    assert list(judgement.scores) == [float(number_of(text)) for text in texts]
    assert (judgement.unjudged, judgement.issues) == (frozenset(), [])


@pytest.mark.parametrize("labels", ["opaque", "id", "index0", "index1"])
@pytest.mark.parametrize(
    "settings", [{}, {"whole": True}, {"reply": "pairs"}, {"reply": "pairs", "bare": True}]
)
def test_reply_formats_and_labels(labels, settings):
    def reply(passages):
        key = "index" if labels.startswith("index") else "id"
        pairs = [{key: one, "score": number_of(text)} for one, text in passages.items()]
        if not settings.get("reply"):
            return graded(passages)
        return json.dumps(pairs if settings.get("bare") else {"grades": pairs})

    method = Graded(Model(), labels=labels, **settings)
    judgement, asks = judge(method, numbered([3, 9, 5]), reply)
    assert judgement.scores == [3.0, 9.0, 5.0]
    prompt = asks[0].questions[0].request
    assert (prompt.schema is None) == bool(settings.get("bare"))


def with_another_label(passages):
    return json.dumps({**json.loads(graded(passages)), "zzzz": 10})


def broken_off(passages):
    return Completion(graded(passages).rpartition(",")[0] + ', "', cut=True)


ANSWERS = [
    # reply to the only question about 3, 9, 5; scores; status by position; issues by position
    ("whole", grades(), [3, 9, 5], {}, {}),
    ("one missing", grades(_9="absent"), [3, None, 5], {1: "backfilled"}, {"not_in_reply": (1,)}),
    ("a rounding error", grades(_9=10.00005), [3, 10, 5], {}, {}),
    ("a word", grades(_9="high"), [3, None, 5], {1: "backfilled"}, {"grade_refused": (1,)}),
    ("an unknown label", with_another_label, [3, 9, 5], {}, {"unknown_label": ()}),
    ("broken off", broken_off, [3, 9, None], {2: "backfilled"}, {"not_in_reply": (2,)}),
]


@pytest.mark.parametrize(
    ("reply", "scores", "status", "issues"),
    [row[1:] for row in ANSWERS],
    ids=[a[0] for a in ANSWERS],
)
def test_incomplete_replies(reply, scores, status, issues):
    reranker = Reranker(Graded(Model(reply)), log_level="debug")
    ranking = reranker.rerank("wombats", numbered([3, 9, 5]))
    got = {item.position: item for item in ranking}
    assert [got[index].rerank_score for index in range(3)] == scores
    assert [got[index].status for index in range(3)] == [
        status.get(index, "scored") for index in range(3)
    ]
    assert {issue.code: issue.positions for issue in ranking.report.issues} == issues
    assert ranking.report.status == ("partial" if status else "ok")


@pytest.mark.parametrize("grade", [11, -1, 95, "95", [95], "95%", 10**400])
@pytest.mark.parametrize("repair", [0, 1])
def test_grade_out_of_range(grade, repair):
    model = Model([grades(_9=grade), graded])
    reranker = Reranker(Graded(model), limits={"repair": repair}, log_level="debug")
    ranking = reranker.rerank("wombats", numbered([3, 9, 5]))
    assert len(model.prompts) == 1 + repair
    assert ranking.order == ((1, 2, 0) if repair else (0, 1, 2))
    assert ranking.report.status == ("ok" if repair else "unchanged")
    if not repair:
        assert ranking.report.issues[0].code == "score_out_of_range"


WRONG = [
    ({"scale": (5, 5)}, "scale: give the lowest and the highest grade"),
    ({"scale": (0, float("inf"))}, "scale"),
    ({"scale": (float("nan"), 1)}, "scale"),
    ({"scale": (0, 1, 2)}, "scale"),
    ({"batch_size": 0}, "batch_size"),
    ({"reply": "permutation"}, "reply"),
    ({"labels": "uuid"}, "labels"),
    ({"bare": True}, "bare: is for arrays"),
    ({"prompt": {"instruction": "Grade {documentz}"}}, "documents"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        Reranker({"type": "graded", "llm": Model(), **settings})


@pytest.mark.parametrize("settings", [{}, {"batch_size": 2}, {"shuffles": 3}])
@pytest.mark.parametrize(("texts", "codes"), [("ab", []), ("aab", []), ("abc", ["scores_equal"])])
def test_one_grade_for_all_is_reported(settings, texts, codes):
    def same(passages):
        return json.dumps(dict.fromkeys(passages, 7))

    reranker = Reranker(Graded(Model(same), **settings), log_level="debug")
    report = reranker.rerank("wombats", list(texts)).report
    assert (report.status, [issue.code for issue in report.issues]) == ("ok", codes)
