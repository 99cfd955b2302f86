import pytest

from fakes import ByTable
from secondpass import Candidate, ConfigurationError, Reranker
from secondpass.rendering import Rendering

CANDIDATE = Candidate(
    "the text",
    id="7",
    score=0.5,
    metadata={
        "title": "A title",
        "tags": ["x", "y"],
        "kinds": {"b", "a"},
        "count": 0,
        "ready": False,
        "nothing": None,
        "empty": "",
        "source": {"path": "a/b.md"},
        "dotted.key": "whole",
    },
)


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({}, "the text"),
        ({"fields": ["title", "text"]}, "A title\nthe text"),
        ({"fields": ["title", "text"], "separator": " | "}, "A title | the text"),
        ({"fields": ["tags", "kinds"], "labels": True}, "tags: x, y\nkinds: a, b"),
        ({"fields": ["count", "ready"], "labels": True}, "count: 0\nready: False"),
        ({"fields": ["nothing", "absent", "text"]}, "the text"),
        ({"fields": ["source.path", "dotted.key", "source.absent"]}, "a/b.md\nwhole"),
        ({"fields": ["id", "score"], "labels": True}, "id: 7\nscore: 0.5"),
        ({"prefix": "passage: "}, "passage: the text"),
        ({"fields": ["tags", "tags|count"], "labels": True}, "tags: x, y\ntags: 2"),
        ({"suffix": " </s>"}, "the text </s>"),
        ({"suffix": " </s>", "max_characters": 3}, "the </s>"),
        ({"max_characters": 5}, "the t"),
        ({"fields": ["title", "text"], "prefix": "> ", "max_characters": 9}, "> A title"),
        ({"fields": ["empty", "text"], "labels": True}, "text: the text"),
        ({"fields": ["empty"]}, ""),
        ({"fields": ["metadata.text", "metadata.title"]}, "A title"),
        ({"fields": ["absent"]}, None),
    ],
)
def test_what_is_shown(settings, shown):
    assert Rendering(**settings).candidates([CANDIDATE]) == [shown]


def test_what_is_cut_for_judging_comes_out_whole():
    scorer = ByTable()
    render = {"max_characters": 3, "query_prefix": "query: ", "query_suffix": "?"}
    ranking = Reranker(scorer, render=render).rerank("what", ["abcdef"])
    assert scorer.calls == [("query: what?", ["abc"])]
    assert ranking[0].text == "abcdef"


def test_other_fields_than_the_text_need_no_text():
    scorer = ByTable()
    reranker = Reranker(scorer, render={"fields": ["output", "type"], "labels": True})
    ranking = reranker.rerank("q", [{"id": "t1", "output": "report", "type": "doc"}, {"id": "t2"}])
    assert scorer.calls == [("q", ["output: report\ntype: doc"])]
    assert [item.status for item in ranking] == ["scored", "unjudged"]


def test_lone_surrogates_are_replaced_for_judging_only():
    scorer = ByTable()
    ranking = Reranker(scorer).rerank("q\ud800", ["caf\u00e9 \udfff", "caf\u00e9"])
    assert scorer.calls == [("q?", ["caf\u00e9 ?", "caf\u00e9"])]
    assert {item.text for item in ranking} == {"caf\u00e9 \udfff", "caf\u00e9"}


@pytest.mark.parametrize("settings", [{"fields": []}, {"max_characters": 0}, {"labels": "yes"}])
def test_wrong_settings(settings):
    with pytest.raises(ConfigurationError):
        Rendering(**settings)
