"""What ``endpoint`` asks and what it makes of the answers, without a server."""

from __future__ import annotations

import pytest

from fakes import play, task_of
from secondpass.apis.endpoint import Endpoint
from secondpass.apis.wire import Response
from secondpass.effects import Answer

BASE = {"base_url": "http://h"}


def tei(**settings):
    return Endpoint("tei", **BASE, **settings)


def judged(endpoint, texts):
    """What it makes of a server that answers with the numbers of the texts, and its questions."""

    def answer(question):
        scores = [int(text.split()[0]) / 10 for text in question.request.documents]
        rows = [{"index": index, "score": score} for index, score in enumerate(scores)]
        return Answer(question.read(Response("", body=rows)))

    return play(endpoint.judge(task_of(texts)), answer)


NAMES = [
    ("cohere", {"model": "m"}, "m", "probability"),
    ("tei", BASE, "tei", "probability"),
    ("tei", {**BASE, "raw_scores": True}, "tei", "logit"),
    ("jina", {"model": "m"}, "m", "unbounded"),
    ("jina", {"model": "m", "scores": "similarity"}, "m", "similarity"),
    ("infinity", {**BASE, "raw_scores": True, "scores": "unbounded"}, "infinity", "unbounded"),
]


@pytest.mark.parametrize(("api", "settings", "name", "kind"), NAMES)
def test_name_and_kind(api, settings, name, kind):
    endpoint = Endpoint(api, **settings)
    assert (endpoint.name, endpoint.score_kind, endpoint.scale) == (name, kind, None)
    assert endpoint.language_models == [endpoint]


@pytest.mark.parametrize(
    ("batch_size", "count", "sizes"), [(None, 32, [32]), (None, 33, [16, 17]), (2, 5, [1, 2, 2])]
)
def test_batches(batch_size, count, sizes):
    judgement, (ask,) = judged(tei(batch_size=batch_size), [f"{n % 10} a" for n in range(count)])
    assert [question.documents for question in ask.questions] == sizes
    assert judgement.scores == [n % 10 / 10 for n in range(count)]


def test_shrink():
    _, (ask,) = judged(tei(), ["1 " + "x" * 3000, "2 " + "y" * 1998, "3 z"])
    first = ask.questions[0].shrink()
    assert [len(text) for text in first.request.documents] == [2000, 2000, 3]
    second = first.shrink()
    assert [len(text) for text in second.request.documents] == [999, 999, 3]
    assert second.request.documents[2] == "3 z"
    assert second.request.query == "wombats"
    while second is not None:
        last, second = second, second.shrink()
    assert all(len(text) < 2000 for text in last.request.documents)
