"""Labels: all different, saying nothing, following from what is shown; how models write them."""

import importlib.util
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from reply_cases import FROM_1, OPAQUE
from secondpass import Candidate
from secondpass.prompts import labels
from secondpass.prompts.fencing import fenced
from secondpass.prompts.labels import Labels, label_all, replace_secret

texts_of = st.lists(st.text(max_size=8), max_size=30)
ids_of = st.lists(
    st.one_of(
        st.none(),
        st.text(max_size=4),
        st.sampled_from(["a", "A", "a b", "a  b", " a", "#1", "#2", "a#2", "ß", "ss", "ﬁ", "fi"]),
        st.sampled_from(["<a>", "&lt;a>", '"', "&quot;", "x" * 300, "x" * 301, "[INST]", "\u202e"]),
    ),
    max_size=12,
)


def labels_of(kind, texts, ids=None, query="q"):
    ids = ids or [None] * len(texts)
    candidates = [Candidate(text, id=id_) for text, id_ in zip(texts, ids, strict=True)]
    return label_all(kind, query, texts, candidates)


@pytest.mark.parametrize(
    ("kind", "names"), [("index0", ["0", "1", "2"]), ("index1", ["1", "2", "3"])]
)
def test_indices(kind, names):
    assert labels_of(kind, ["a", "b", "c"]) == names


IDS = [
    (["a", "b"], ["a", "b"]),
    ([None, None], ["#1", "#2"]),
    ([None, "a"], ["#1", "a"]),
    (["", "a"], ["#1", "a"]),
    (["a", "a"], ["a", "a#2"]),
    (["a", "A"], ["a", "A#2"]),
    (["a", "a", "a"], ["a", "a#2", "a#3"]),
    (["a#2", "a"], ["a#2", "a"]),
    (["a", "a#2", "a"], ["a", "a#2", "a#3"]),
    (["#2", None], ["#2", "#3"]),
    (["a  b", "a b"], ["a b", "a b#2"]),
    (['say "hi"'], ["say &quot;hi&quot;"]),
    (["a<b>"], ["a&lt;b&gt;"]),
    (["x" * 300], ["x" * 200]),
    (['"' * 200], [("&quot;" * 200)[:280]]),
    (["x" * 300, "x" * 301], ["x" * 200, "x" * 200 + "#2"]),
    (["\u200b", "b"], ["#1", "b"]),
    (["rock|wallaby/7", "ü-1"], ["rock|wallaby/7", "ü-1"]),
]


@pytest.mark.parametrize(("ids", "names"), IDS)
def test_ids(ids, names):
    assert labels_of("id", ["t"] * len(ids), ids) == names


@given(ids_of)
def test_ids_are_unique_to_readers(ids):
    names = labels_of("id", ["t"] * len(ids), ids)
    assert len(names) == len(ids)
    reader = Labels(names, None)
    for at, label in enumerate(names):
        assert reader.place(label) == at
        assert len(label) < 300
        assert reader.place(label.upper()) in {at, None}  # İ and its like have no way back
        # What is shown is what the schema and the reader know.
        assert fenced("doc", "", label) == f'<doc id="{label}"></doc>'


@given(st.text(max_size=5), texts_of)
def test_opaque_labels_are_unique(query, texts):
    names = labels_of("opaque", texts, query=query)
    assert len(set(names)) == len(texts)
    assert all(re.fullmatch(r"[b-df-hj-kmnp-tv-z][2-9][b-df-hj-kmnp-tv-z]", one) for one in names)
    assert names == labels_of("opaque", texts, query=query)


@pytest.mark.parametrize("count", [1, 100, 800, 801, 5000])
def test_many_opaque_labels_are_longer(count):
    names = labels_of("opaque", ["t"] * count)
    assert len(set(names)) == count
    assert len({len(name) for name in names}) == 1
    assert len(names[0]) == (3 if count <= 800 else 4 if count <= 6400 else 5)


def test_opaque_labels_depend_on_a_secret():
    plain = labels_of("opaque", ["a", "b", "c"])
    before = replace_secret(b"another")
    try:
        assert labels_of("opaque", ["a", "b", "c"]) != plain
    finally:
        assert replace_secret(before) == b"another"
    assert labels_of("opaque", ["a", "b", "c"]) == plain


def test_each_process_has_a_secret_of_its_own():
    def fresh():
        spec = importlib.util.spec_from_file_location("labels_of_another_process", labels.__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.label_all("opaque", "q", ["a", "b"], ())

    assert fresh() != fresh()


@NEEDS_FORK
@IGNORES_FORKS
def test_forks_share_the_secret():
    before = labels_of("opaque", ["a", "b"])
    assert ended_well(run_child(lambda: labels_of("opaque", ["a", "b"]) == before))


def test_opaque_labels_hide_the_place():
    firsts = {labels_of("opaque", ["a", "b"], query=f"q{at}")[0] for at in range(200)}
    assert len(firsts) > 150


# ---------------------------------------------------------------------- labels in replies


ESCAPED = Labels(["a&lt;b&gt;", "&quot;quoted&quot;", "?x=1&y=2"], None)


NUMBERS = Labels(["7", "doc 8"], None)


@pytest.mark.parametrize(
    ("labels", "value", "place"),
    [
        (OPAQUE, "k4t", 0),
        (OPAQUE, " K4T\n", 0),
        (OPAQUE, "", None),
        (OPAQUE, None, None),
        (OPAQUE, 4, None),
        (FROM_1, 1, 0),
        (FROM_1, 1.0, 0),
        (FROM_1, "1", 0),
        (FROM_1, True, None),
        (FROM_1, 1.5, None),
        (FROM_1, math.nan, None),
        (FROM_1, 1e300, None),
        (FROM_1, "1.0", 0),
        (FROM_1, "1.5", None),
        (FROM_1, "[1]", 0),
        (FROM_1, "passage 3", 2),
        (FROM_1, "rank 3", None),
        (FROM_1, "index -1", None),
        (OPAQUE, "doc_k4t", 0),
        (OPAQUE, "dock4t", None),
        (NUMBERS, "7", 0),
        (NUMBERS, "passage 7", None),
        (NUMBERS, "doc 8", 1),
        (NUMBERS, 7, 0),
        (NUMBERS, 7.0, 0),
        (NUMBERS, 7.5, None),
        (Labels(["True"], None), True, None),
        (Labels(["1000000000"], None), 1e9, 0),
        (Labels(["1000000001"], None), 1_000_000_001.0, None),
        (Labels(["x" * 300], None), "x" * 300, 0),
        (Labels(["x" * 301], None), "x" * 301, None),
        (FROM_1, "1." + "0" * 298, 0),
        (FROM_1, "1." + "0" * 299, None),
        (FROM_1, [1], None),
        (ESCAPED, "a&lt;b&gt;", 0),
        (ESCAPED, "a<b>", 0),
        (ESCAPED, "a&#60;b&#x3E;", 0),
        (ESCAPED, '"quoted"', 1),
        (ESCAPED, "?x=1&y=2", 2),
        (ESCAPED, "?x=1&amp;y=2", 2),
        (Labels(["a", "&quot;a&quot;"], None), '"a"', 1),
        (Labels(["&lt;b", "&lt;b#2"], None), "<b", 0),
        (Labels(["a&b", "a&amp;b"], None), "a&b", 0),
        (Labels(["a&b", "a&amp;b"], None), "a&amp;b", 1),
        (Labels(["a&b", "a&amp;b"], None), "a&amp;amp;b", None),
        (Labels(["a&lt;b", "a&amp;b"], None), "a&#38;b", 1),
        (Labels(["a&#38;b", "a&amp;b"], None), "a&b", None),
        (FROM_1, {"id": 1}, None),
    ],
)
def test_place(labels, value, place):
    assert labels.place(value) == place


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (91, 91),
        (-91, -91),
        (10**9, 10**9),
        (10**9 + 1, None),
        (-(10**9) - 1, None),
        (1e9, 10**9),
        (1e9 + 1, None),
        ("doc 91", 91),
        (None, None),
    ],
)
def test_number(value, number):
    assert FROM_1.number(value) == number


def test_beyond_the_ends():
    assert [FROM_1.is_beyond(value) for value in (-1, 0, 1, 3, 4, 5)] == [
        *(False, True, False, False, True, False)
    ]
    assert not any(map(OPAQUE.is_beyond, (-1, 3, "3", "k4t")))


def test_numeric():
    assert [labels.numeric for labels in (FROM_1, OPAQUE, NUMBERS)] == [True, False, False]
