"""Each field of a request: its kinds, its bounds, and whether it was read."""

import pytest

from secondpass_server.http.errors import RequestError, TooManyTextsError
from secondpass_server.http.fields import Fields
from secondpass_server.http.settings import ServerSettings

SETTINGS = ServerSettings(max_query_characters=5, max_candidates=2, max_text_characters=4)


def fields(**body):
    return Fields(body, SETTINGS)


@pytest.mark.parametrize("body", [None, [], "text", 1.5, True], ids=repr)
def test_a_body_is_an_object(body):
    with pytest.raises(RequestError, match="must be a JSON object") as caught:
        Fields(body, SETTINGS)
    assert caught.value.status == 400


READERS = {
    # how a field is read; what it may be; what is wrong, and how that is said
    "text": (lambda read: read.text("x"), "abcde", [("abcdef", "6 characters"), (1, "a number")]),
    "flag": (lambda read: read.flag("x"), True, [(1, "a number"), ("wombats", "a string")]),
    "count": (
        lambda read: read.count("x"),
        3,
        [
            (0, "1 or more"),
            ("-1", "1 or more"),
            (True, "not true"),
            (1.5, "a number"),
            ("wombats", "a string"),
            ("1.5", "a string"),
        ],
    ),
    "mapping": (
        lambda read: read.mapping("x"),
        {"a": 1},
        [([], "a list"), ("wombats", "a string")],
    ),
    "names": (
        lambda read: read.names("x"),
        ["a"],
        [([], "list of strings"), ([1], "list of strings"), (["a"] * 101, "at most 100")],
    ),
}


@pytest.mark.parametrize("kind", READERS)
def test_kinds(kind):
    read, value, wrong = READERS[kind]
    assert read(fields(x=value)) == value
    assert read(fields(x=None)) == read(fields()) == (False if kind == "flag" else None)
    for one, message in wrong:
        with pytest.raises(RequestError, match=message) as caught:
            read(fields(x=one))
        assert caught.value.status is None  # that of the API
        assert caught.value.message.startswith("x: ")
        assert "wombats" not in caught.value.message


@pytest.mark.parametrize("kind", ["flag", "count"])
@pytest.mark.parametrize("value", ["true", "True", "false", "3", 3.0])
def test_values_of_another_type(kind, value):
    """RAGFlow sends ``"true"``; servers that validate with pydantic accept all of these."""
    meant = {"true": True, "false": False}.get(str(value).lower(), 3)
    read = READERS[kind][0]
    if isinstance(meant, bool) == (kind == "flag"):
        assert read(fields(x=value)) is meant
    else:
        with pytest.raises(RequestError):
            read(fields(x=value))


@pytest.mark.parametrize(
    ("body", "message"),
    [({}, "query: is required"), ({"query": " \n"}, "must not be blank")],
    ids=["absent", "blank"],
)
def test_a_query_is_needed(body, message):
    with pytest.raises(RequestError, match=message):
        fields(**body).query()


DOCUMENTS = [{"text": "a", "title": "b"}, "c"]


def test_documents_come_back_as_they_were_sent():
    assert fields(d=DOCUMENTS).documents("d", objects=True) == (["a", "c"], DOCUMENTS)


CONTENT = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}


def test_contents_as_vllm_has_them():
    sent = [CONTENT, {"content": "c"}, {"text": "d", "content": "e"}, {"text": None, **CONTENT}]
    texts, documents = Fields({"d": sent}, ServerSettings()).documents("d", objects=True)
    assert texts == ["a\nb", "c", "d", "a\nb"]
    assert documents == [{"text": "a\nb"}, {"text": "c"}, sent[2], {"text": "a\nb"}]


@pytest.mark.parametrize("query", [{"text": "a\nb"}, CONTENT, "a\nb"], ids=["text", "content", "-"])
def test_a_query_as_a_document(query):
    assert fields(query=query).query(objects=True) == "a\nb"


def test_a_query_that_is_no_object():
    with pytest.raises(RequestError, match="query: must be a string, not an object"):
        fields(query=CONTENT).query()
    with pytest.raises(RequestError, match="query: has 6 characters; at most 5"):
        fields(query={"text": "abcdef"}).query(objects=True)


def test_rank_fields_are_lines():
    read = Fields({"d": [{"b": 1, "a": "x", "none": None}]}, ServerSettings())
    texts, _ = read.documents("d", objects=True, fields=["a", "b", "none"])
    assert texts == ["a: x\nb: 1"]


@pytest.mark.parametrize(
    ("documents", "names", "message"),
    [
        (None, None, "d: is required"),
        ("a", None, "d: must be a list, not a string"),
        ([], None, "d: must not be empty"),
        (["abcde"], None, r"d\[0\]: has 5 characters; at most 4"),
        ([{"text": None}], None, r"d\[0\].text: is required"),
        ([{"image": "a"}], None, r"d\[0\].text: is required"),
        ([{"text": 1}], None, r"d\[0\].text: must be a string, not a number"),
        ([{"content": 1}], None, r"d\[0\].content: must be a string, not a number"),
        ([{"content": []}], None, r"d\[0\].content: must not be empty"),
        ([{"content": ["a"]}], None, r"d\[0\].content\[0\]: must be an object with a text"),
        ([{"content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}], None,
         r"d\[0\].content\[1\].text: is required"),
        ([{"content": "abcde"}], None, r"d\[0\]: has 5 characters; at most 4"),
        ([["a"]], None, r"d\[0\]: must be a string or an object with a text, not a list"),
        ([{"a": {}}], ["a"], "a field of rank_fields must not be an object"),
        ([{"b": 1}], ["a"], "has none of the fields"),
    ],
)  # fmt: skip
def test_wrong_documents(documents, names, message):
    with pytest.raises(RequestError, match=message):
        fields(d=documents).documents("d", objects=True, fields=names)


def test_too_many_documents():
    with pytest.raises(TooManyTextsError, match="d: has 3 texts; at most 2") as caught:
        fields(d=["a"] * 3).documents("d")
    assert (caught.value.count, caught.value.most) == (3, 2)


def test_fields_without_effect():
    read = fields(query="q", other=1, empty=None, **{"odd name": 1}, truncate=False, cut=True)
    read.query()
    read.expect("truncate", True)
    read.expect("cut", True)
    assert read.unused == ("other", "truncate")
