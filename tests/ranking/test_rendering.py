from dataclasses import dataclass
from pathlib import PurePosixPath
from types import SimpleNamespace

import pytest

from fakes import ByTable
from secondpass import Candidate, ConfigurationError, Reranker
from secondpass.questions import written_spans
from secondpass.ranking.candidates import to_candidates
from secondpass.ranking.rendering import Rendering

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
        ({"fields": ["empty"]}, None),
        ({"fields": ["metadata.text", "metadata.title"]}, "A title"),
        ({"fields": ["absent"]}, None),
    ],
)
def test_what_is_shown(settings, shown):
    assert Rendering(**settings).candidates([CANDIDATE]) == [shown]


@dataclass
class Entry:
    path: str
    summary: str | None = None
    _secret: str = "secret"

    def read(self):
        return "secret"

    @property
    def broken(self):
        raise RuntimeError("secret")


@dataclass
class Hit:
    entry: Entry
    score: float = 0.5


HIT = Hit(Entry("tool.md"))


@pytest.mark.parametrize(
    ("value", "field", "shown"),
    [
        ({"hit": HIT}, "hit.entry.path", "tool.md"),
        ({"hit": {"entry": HIT.entry}}, "hit.entry.path", "tool.md"),
        (HIT, "entry.path", "tool.md"),
        (HIT, "metadata.entry.path", "tool.md"),
        (SimpleNamespace(text="a", entry=HIT.entry), "entry.path", "tool.md"),
        ({"file": PurePosixPath("docs/tool.md")}, "file.name", "tool.md"),
        (HIT, "entry.summary|entry.path", "tool.md"),
        *((HIT, f"entry.{name}", None) for name in ("read", "_secret", "broken")),
        ({"source": "a"}, "source.title", None),
    ],
)
def test_nested_objects_are_read_as_mappings_are(value, field, shown):
    scorer = ByTable()
    Reranker(scorer, render={"fields": [field]}).rerank("q", [value])
    assert scorer.calls == ([] if shown is None else [("q", [shown])])


@pytest.mark.parametrize("settings", [{"fields": []}, {"max_characters": 0}, {"labels": "yes"}])
def test_wrong_settings(settings):
    with pytest.raises(ConfigurationError):
        Rendering(**settings)


BLANK = {
    "nothing": "",
    "white space": " \t\r\n\x0b\x85\u2028",
    "wide spaces": "\xa0\u1680\u2003\u3000",
    "zero width": "\u200b\u200c\u200d\u2060\ufeff",
    "soft hyphens and marks of direction": "\xad\u200e\u061c\u202e",
    "control characters": "\x00\x1b\x7f",
    "tags": "\U000e0041\U000e007f",
}
VISIBLE = ["a", " .", "\u200b7", "\x00\n-", "\ud800", "\u0301", "中", "👩\u200d🚀", "[SEP]"]
DECORATED = [
    {},
    {"labels": True},
    {"prefix": "passage: ", "suffix": " </s>"},
    {"max_characters": 50},
    {"fields": ["title", "text"]},
    {"fields": ["title|text"], "labels": True},
]


@pytest.mark.parametrize("settings", DECORATED)
@pytest.mark.parametrize("text", BLANK.values(), ids=BLANK)
def test_a_text_without_a_visible_character_is_nothing_to_show(text, settings):
    candidate = Candidate(text, metadata={"title": text})
    assert Rendering(**settings).candidates([candidate]) == [None]
    # It does not stand in the way of another field.
    titled = Candidate("seen", metadata={"title": text})
    untitled = Candidate("seen")
    first, second = Rendering(**settings).candidates([titled, untitled])
    assert first == second


@pytest.mark.parametrize("settings", DECORATED)
@pytest.mark.parametrize("text", VISIBLE)
def test_a_visible_character_is_enough(text, settings):
    assert Rendering(**settings).candidates([Candidate(text)]) != [None]


def test_what_is_rendered_counts():
    late = Candidate(f"{' ' * 20}seen")
    assert Rendering(max_characters=20).candidates([late]) == [None]
    assert Rendering(max_characters=21).candidates([late]) == [f"{' ' * 20}s"]
    assert Rendering(prefix="passage: ", max_characters=5).candidates([CANDIDATE]) == [None]


NESTED = {
    "a list of mappings": (
        [{"field": "title", "term": "db"}, {"field": "tags", "term": "sql", "weight": 0.5}],
        "field: title, term: db; field: tags, term: sql, weight: 0.5",
    ),
    "a mapping": ({"a": 1, "b": None, "c": "x"}, "a: 1, c: x"),
    "a mapping of lists": ({"a": [1, 2], "b": {"c": "d"}}, "a: (1, 2), b: (c: d)"),
    "a list of lists": ([[1, 2], [3]], "1, 2; 3"),
    "deeper": ([[[1, 2]], {"a": {"b": [{"c": 3}]}}], "(1, 2); a: (b: ((c: 3)))"),
    "plain": (["a", 2, True], "a, 2, True"),
    "empty": ([], None),
}


@pytest.mark.parametrize(("value", "text"), NESTED.values(), ids=NESTED)
def test_nested_values_are_written_out(value, text):
    candidate = Candidate("", metadata={"match": value})
    assert Rendering(fields=["match"]).candidates([candidate]) == [text]


def test_values_without_end_are_cut():
    circle = {}
    circle["self"] = circle
    wide = [0] * 1000
    for _ in range(6):
        wide = [wide] * 1000
    candidate = Candidate("", metadata={"circle": circle, "wide": wide})
    [text] = Rendering(fields=["circle", "wide"]).candidates([candidate])
    assert "…" in text
    assert len(text) < 100_000


SPANS = [
    # settings, text, span of the rendering; span of the text
    ({}, "one two", (4, 7), (4, 7)),
    ({}, "one \ud800", (0, 5), (0, 5)),
    ({}, "", (0, 1), None),
    ({"prefix": "p: ", "suffix": "."}, "one", (3, 6), (0, 3)),
    ({"prefix": "p: ", "suffix": "."}, "one", (0, 7), (0, 3)),
    ({"prefix": "p: "}, "one", (0, 3), None),
    ({"max_characters": 3}, "one two", (0, 3), (0, 3)),
    ({"max_characters": 5, "prefix": "p: "}, "one two", (0, 5), (0, 2)),
    ({"max_characters": 3, "prefix": "p: "}, "one two", (0, 3), None),
    ({"max_characters": 30}, "one two", (0, 3), (0, 3)),
    ({"fields": ["text", "id"]}, "one", (1, 5), (1, 3)),
    ({"fields": ["id", "text"], "labels": True}, "one", (3, 13), (0, 1)),
    ({"fields": ["id", "text"], "labels": True}, "one\ntwo", (3, 12), None),
    ({"fields": ["id"]}, "one", (0, 1), None),
    ({"fields": ["text", "absent?"]}, "one", (0, 3), (0, 3)),
]


@pytest.mark.parametrize(("settings", "text", "span", "expected"), SPANS)
def test_spans_of_the_text(settings, text, span, expected):
    candidate, rendering = Candidate(text, id="7"), Rendering(**settings)
    assert rendering.span_of_text(candidate, span) == expected


ALTERNATIVES = [
    ("path|file_path|id", {"path": "a", "file_path": "b"}, "path: a"),
    ("path|file_path|id", {"file_path": "b"}, "path: b"),
    ("path|file_path|id", {"path": "", "file_path": "b"}, "path: b"),
    ("path|file_path|id", {}, "path: 7"),
    ("path|file_path|id", {"path|file_path|id": "whole"}, "path: whole"),
    ("parts|items|count", {"items": [1, 2]}, "parts: 2"),
    ("parts|count", {"parts|count": 9, "parts": [1]}, "parts: 9"),
    ("count", {"count": 3}, "count: 3"),
    ("tags?", {"tags": ["x"]}, "tags: x"),
    ("tags?", {}, None),
    ("ready?", {"ready?": "yes"}, "ready: yes"),
]


@pytest.mark.parametrize(("field", "metadata", "text"), ALTERNATIVES)
def test_fields_with_alternatives(field, metadata, text):
    candidate = Candidate("", id="7", metadata=metadata)
    assert Rendering(fields=[field], labels=True).candidates([candidate]) == [text]


@pytest.mark.parametrize(("value", "shown"), [("a", "a"), ("", "7"), (None, "7"), (0, "0")])
def test_a_candidate_without_the_field_keeps_its_id(value, shown):
    rendering = Rendering(id="meta.name|meta.title", fields=["id", "text"])
    candidate = Candidate("t", id="7", metadata={"name": value})
    assert rendering.candidates([candidate]) == [f"{shown}\nt"]
    assert rendering.span_of_text(candidate, (0, 9)) == (0, 1)


MISSING = [
    (["titel", "text"], ["titel"]),
    (["title", "text"], []),
    (["titel?", "text"], []),
    (["titel|title", "text"], []),
    (["a", "b|c", "text"], ["a", "b|c"]),
    (["empty", "id"], []),
    (["text"], []),
]


@pytest.mark.parametrize(("fields", "missing"), MISSING)
def test_a_field_that_no_candidate_has_is_reported(fields, missing):
    found = [{"text": "x", "id": "1"}, {"text": "y", "id": "2", "title": "t", "empty": ""}]
    ranking = Reranker(ByTable({}), render={"fields": fields}).rerank("q", found)
    messages = [i.message for i in ranking.report.issues if i.code == "field_missing"]
    assert len(messages) == bool(missing)
    assert all(repr(field) in messages[0] for field in missing)
    assert ranking.report.status == "ok"


@pytest.mark.parametrize("candidates", [[], [{"output": "report", "id": "t1"}]])
@pytest.mark.parametrize("name", ["listwise_ids", "listwise_guided"])
def test_presets_report_no_optional_field(name, candidates):
    rendering = Reranker.from_preset(name, method={"llm": lambda messages: ""}).render
    assert rendering.missing(to_candidates(candidates, text_needed=False)) == []


FRAMES = {
    "nothing": ({}, []),
    "prefix and suffix": ({"prefix": "P: ", "suffix": " :S"}, ["P: ", " :S"]),
    "separator": ({"separator": "[SEP]", "fields": ("title", "text")}, ["[SEP]"]),
    "white space": ({"separator": "\n\n", "fields": ("title", "text")}, []),
    "cut in the text": ({"prefix": "P: ", "suffix": " :S", "max_characters": 5}, ["P: ", " :S"]),
    "surrogates": ({"prefix": "\ud800"}, ["?"]),
}


@pytest.mark.parametrize(("settings", "written"), FRAMES.values(), ids=FRAMES)
def test_what_the_configuration_wrote_is_known(settings, written):
    [text] = Rendering(**settings).candidates([Candidate("[SEP] P: :S", metadata={"title": "P: "})])
    assert [text[start:stop] for start, stop in written_spans(text)] == written
    query = Rendering(query_prefix="Q: ", query_suffix="?").query("Q: ?")
    assert (query, written_spans(query)) == ("Q: Q: ??", ((0, 3), (7, 8)))
    assert type(Rendering().query("q")) is str
