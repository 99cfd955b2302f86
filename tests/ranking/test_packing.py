"""Passages packed into a budget of tokens."""

from __future__ import annotations

import math
import re
import sys
from collections import UserDict
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secondpass import Candidate, Ranked, Ranking, Report, Reranker
from secondpass.errors import InputError
from secondpass.ranking.packing import MARK, estimate_most_tokens
from secondpass.ranking.splitting import sentences

FIELDS = ("source_id", "split_idx_start")


def joined(parts):
    """What matches the parts of a passage in a packed text."""
    return rf"[ \n]{re.escape(MARK)}[ \n]".join(map(re.escape, parts))


def words(text):
    return len(text.split())


def ranking_of(*passages, **more):
    """A ranking of texts, or of (text, metadata) or (text, metadata, pieces), best first."""
    items = []
    for position, passage in enumerate(passages):
        text, metadata, pieces = (*([passage] if isinstance(passage, str) else passage), {}, ())[:3]
        candidate = Candidate(text, str(position), None, metadata)
        score = 1 / (position + 1)
        common = (position + 1, position, candidate, "scored", score, score, (), {})
        items.append(Ranked(*common, pieces=pieces, **more))
    return Ranking("a query", tuple(items), Report("ok"))


def sentences_of(text, scores):
    """The sentences of a text as its pieces."""
    return [(*span, score) for span, score in zip(sentences(text), scores, strict=True)]


# ---------------------------------------------------------------------- whatever is packed

DOCUMENT = "One two three. Four five six. Seven.\n\nEight nine! \u0e2a\u0e27\u0e31\u0e2a red apples"
COUNTERS = [
    None,
    words,
    len,
    lambda text: text.split(),
    SimpleNamespace(encode=lambda text: [0, *text.split(), 1]),
]


@st.composite
def passages(draw):
    """Texts, many of them parts of one document; some say where they begin, and some wrongly."""
    drawn = []
    for _ in range(draw(st.integers(0, 7))):
        if draw(st.booleans()):
            start = draw(st.integers(0, len(DOCUMENT) - 1))
            text = DOCUMENT[start : draw(st.integers(start, len(DOCUMENT)))]
            where = draw(st.sampled_from([{}, dict(zip(FIELDS, ("d", start), strict=True))]))
            if draw(st.integers(0, 9)) == 0:
                where = dict(zip(FIELDS, ("d", start + 1), strict=True))
        else:
            text, where = draw(st.text(st.sampled_from("ab \n\u00e9.[\u2026]"), max_size=40)), {}
        ends = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
        scores = st.floats(-1, 1)
        pieces = [
            (first, last, draw(scores)) for first, last in zip(ends[::2], ends[1::2], strict=False)
        ]
        drawn.append((text, where, pieces))
    return drawn


@settings(max_examples=5 * settings().max_examples)  # 10,000 lists in the long profile
@given(
    passages=passages(),
    tokens=st.integers(1, 60),
    count=st.sampled_from(COUNTERS),
    order=st.sampled_from(["best", "document", "lost_in_the_middle"]),
    neighbours=st.sampled_from([None, FIELDS]),
    numbered=st.booleans(),
)
def test_what_is_packed_fits_once_and_is_found_again(passages, tokens, count, **options):
    ranking = ranking_of(*passages)
    packed = ranking.pack(tokens, count=count, **options)
    again = ranking.pack(tokens, count=count, **options)
    assert packed == again

    number = estimate_most_tokens if count is None else getattr(count, "encode", count)
    size = number(packed.text)
    size = size if isinstance(size, int | float) else len(size)
    assert not packed.text or packed.tokens == math.ceil(size) <= tokens

    positions = [source.position for source in packed.sources]
    left_out = [position for left in packed.left_out.values() for position in left]
    assert sorted(positions + left_out) == list(range(len(passages)))
    stop = 0
    for source in packed.sources:
        assert stop <= source.start < source.stop
        stop = source.stop
        text = ranking[source.position].text
        parts = [text[slice(*span)] for span in source.spans]
        assert re.fullmatch(joined(parts), packed.text[source.start : source.stop])
        assert all(before[1] <= after[0] for before, after in pairwise(source.spans))
        assert packed.text[source.start : source.stop] in packed.passages[source.number - 1]
    numbers = [source.number for source in packed.sources]
    assert numbers == [*range(1, len(packed.passages) + 1)]
    if options["neighbours"]:
        assert_no_text_twice(ranking, packed)


def assert_no_text_twice(ranking, packed):
    """No character of a document, but white space, is packed as part of two passages."""
    seen = set()
    for source in packed.sources:
        item = ranking[source.position]
        where = item.candidate.metadata.get(FIELDS[1])
        if where is None or not DOCUMENT.startswith(item.text, where):
            continue
        places = {where + at for span in source.spans for at in range(*span)}
        assert not any(DOCUMENT[place].strip() for place in seen & places)
        seen |= places


# ---------------------------------------------------------------------- how often it counts


class Counted:
    """A counter of words that notes its calls, and the characters that it has read."""

    def __init__(self, least=0):
        self.calls = self.characters = 0
        self.least = least

    def __call__(self, text):
        self.calls += 1
        self.characters += len(text)
        return self.least + len(text.split())


def many_passages(number):
    return [f"{'red apples ' * (1 + index % 7)}{index:06d}" for index in range(number)]


def one_of_many_sentences(number):
    text = " ".join(f"Apple {index} is red." for index in range(number))
    return [(text, {}, sentences_of(text, [index % 7 / 7 for index in range(number)]))]


def a_document_in_parts(number):
    return [(f"apple {index:06d} ", at(13 * index)) for index in range(number)]


@pytest.mark.parametrize("made", [many_passages, one_of_many_sentences, a_document_in_parts])
@pytest.mark.parametrize("share", [0.1, 0.9, 9])
@pytest.mark.parametrize("least", [0, 2])
def test_each_part_is_counted_once(made, share, least):
    passages = made(400)
    size = sum(len(it if isinstance(it, str) else it[0]) for it in passages)
    count = Counted(least)
    tokens = max(1, round(share * size / 7))
    packed = ranking_of(*passages).pack(tokens, count=count, neighbours=FIELDS)
    assert packed.tokens <= tokens
    assert count.calls < 3 * 400 + 60
    assert count.characters < 20 * size


@pytest.mark.parametrize("share", [0.5, 9])
def test_overlaps_are_found_without_comparing_all(share):
    """An order of magnitude: each text is compared with the few that begin as it ends."""
    words = [f"apple-{index:015d}" for index in range(1500)]
    texts = [f"{one} {next}" for one, next in pairwise(words)]
    packed = ranking_of(*texts).pack(round(share * 1500), count=Counted(), numbered=False)
    shown = packed.text.replace(MARK, "").split()
    assert shown == words[: len(shown)]
    # A passage is a new word and a mark.
    assert len(shown) == min(1500, round(share * 750) + 1)


@pytest.mark.parametrize(
    "count",
    [lambda text: len(text) ** 1.2, lambda text: 3 * len(text.split()) + len(text) % 5],
    ids=["the whole has more", "up and down"],
)
def test_the_budget_holds_where_the_whole_has_more_tokens_than_its_parts(count):
    texts = many_passages(40)
    packed = ranking_of(*texts).pack(700, count=count)
    assert 0 < packed.tokens == math.ceil(count(packed.text)) <= 700
    left = [at for positions in packed.left_out.values() for at in positions]
    assert sorted([*left, *(it.position for it in packed.sources)]) == [*range(40)]


def test_where_the_whole_has_fewer_tokens_the_budget_is_used():
    # Each passage alone costs two tokens more than within the text.
    packed = ranking_of(*many_passages(40)).pack(
        100, count=lambda text: 2 * bool(text) + len(text.split())
    )
    assert 90 <= packed.tokens <= 100


@pytest.mark.parametrize("tokens", [sys.maxsize, 10**400], ids=["large", "too large for a float"])
def test_a_budget_of_any_size(tokens):
    assert len(ranking_of("red apples", "a pear").pack(tokens).passages) == 2


# The number of tokens is that of DeepSeek V4's tokenizer.
TOKENS = {
    "capitals": ("MUSSELS CLOSE THEIR SHELLS WHEN THE SEA WITHDRAWS.", 18),
    "base64": (
        "xdcUhPjPm/S3b0eQRzCAS54yJanxM7XeoWj04oUfBy/MAPyqfKYgYXF6SOUuKaP6N5qVP6pok+MuxaJ7",
        56,
    ),
    "tabs": ("a\t\t\t\tb\t\t\tc\na\t\tb\t\t\t\tc\n", 12),
    "emoji": ("So happy \U0001f600\U0001f389 \U0001f44d\U0001f3fd \u2764\ufe0f", 12),
    "formulas": (
        "\u2200x\u2208\u211d \u2203\u03b4>0: |f(x)|<\u03b5 \u21d2 \u2207\u00b7E=\u03c1",
        21,
    ),
    "names": ("Nguy\u1ec5n Th\u1ecb Minh Khai, Kwame Nkrumah, Siobh\u00e1n N\u00ed Bhriain", 26),
    "prose": ("Crabs hide under the weed, where it is damp, until the water returns.", 17),
}


@pytest.mark.parametrize(("text", "tokens"), TOKENS.values(), ids=TOKENS)
def test_the_estimate_is_not_too_low(text, tokens):
    assert tokens <= estimate_most_tokens(text) <= 3 * tokens


def test_the_estimate_of_prose_wastes_little():
    text, tokens = TOKENS["prose"]
    assert estimate_most_tokens(text) <= 1.6 * tokens


# ---------------------------------------------------------------------- passages and sentences


def test_smaller_ones_follow_one_that_does_not_fit():
    packed = ranking_of("red apples " * 50, "red apples", "a red car").pack(12, count=words)
    assert packed.left_out == {"tokens": (0,)}
    assert packed.text == "[1] 1\nred apples\n\n[2] 2\na red car"


TEXT = "We saw trees. They had red apples. It rained. Some apples were green. The end."


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (30, TEXT),
        (11, f"{MARK} They had red apples. {MARK} Some apples were green. {MARK}"),
        (12, f"{MARK} They had red apples. It rained. Some apples were green. {MARK}"),
        (6, f"{MARK} They had red apples. {MARK}"),
        (5, ""),
        (2, ""),
    ],
)
def test_the_best_sentences_stand_in_the_order_of_the_text(tokens, expected):
    pieces = sentences_of(TEXT, [0.1, 0.9, 0.3, 0.8, 0.2])
    packed = ranking_of((TEXT, {}, pieces)).pack(tokens, count=words, numbered=False)
    assert packed.text == expected
    for source in packed.sources:
        parts = [TEXT[slice(*span)] for span in source.spans]
        assert packed.text[source.start : source.stop] == f" {MARK} ".join(parts)


def test_without_its_best_sentence_a_passage_is_left_out():
    pieces = sentences_of("A very long sentence indeed. Short.", [0.9, 0.1])
    packed = ranking_of(("A very long sentence indeed. Short.", {}, pieces)).pack(5, count=words)
    assert packed.left_out == {"tokens": (0,)}


@pytest.mark.parametrize(
    ("tokens", "text", "spans"),
    [
        (3, f"{MARK} red apples", ((13, 23),)),
        (6, "green pears, red apples", ((0, 23),)),
        (1, "", ()),
    ],
)
def test_a_span_stands_for_a_passage_without_scored_sentences(tokens, text, spans):
    ranking = ranking_of("green pears, red apples", span=(13, 23))
    packed = ranking.pack(tokens, count=words, numbered=False)
    assert packed.text == text
    assert tuple(span for source in packed.sources for span in source.spans) == spans


@pytest.mark.parametrize("text", ["", " \n", "\u200b\ufeff", None])
def test_a_passage_without_a_visible_character_is_not_packed(text):
    packed = ranking_of("red apples", (text, {})).pack(100)
    assert (len(packed.sources), packed.left_out) == (1, {"no_text": (1,)})


def test_embedded_scores_every_sentence():
    (item,) = Reranker("embedded").rerank("Who grows apples?", [TEXT])
    assert [TEXT[start:stop] for start, stop, _ in item.pieces] == [
        "We saw trees.",
        "They had red apples.",
        "It rained.",
        "Some apples were green.",
        "The end.",
    ]
    best = max(item.pieces, key=lambda piece: piece[2])
    assert best[:2] == item.span


CODE = """Counts apples. Then pears.

def count(tree):
    total = 0
    # Only red ones. Not green ones.
    for apple in tree:
        total += apple.red
    return total
"""


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        (
            ["total = 0", "Not green ones."],
            "{mark}\n    total = 0\n    # Only red ones. Not green ones.\n{mark}",
        ),
        (
            ["def count(tree):", "return total"],
            "{mark}\ndef count(tree):\n{mark}\n    return total",
        ),
        (["total += apple.red"], "{mark}\n        total += apple.red\n{mark}"),
        (["Then pears."], "Counts apples. Then pears.\n{mark}"),
    ],
)
def test_code_stays_in_its_lines(best, expected):
    pieces = [
        (start, stop, 0.9 if CODE[start:stop] in best else 0.1) for start, stop in sentences(CODE)
    ]
    expected = expected.format(mark=MARK)
    # As many words as the best lines have, so that no other line fits.
    packed = ranking_of((CODE, {}, pieces)).pack(words(expected), count=words, numbered=False)
    assert packed.text == expected
    (source,) = packed.sources
    assert re.fullmatch(
        joined([CODE[slice(*span)] for span in source.spans]),
        packed.text[source.start : source.stop],
    )


def test_a_mark_keeps_the_ends_of_lines_beside_it():
    text = "Some more fruit:\n- red apples\n- green pears. Both are ripe.\n- plums\n- figs"
    best = ["- red apples", "Both are ripe.", "- figs"]
    pieces = [(*span, float(text[slice(*span)] in best)) for span in sentences(text)]
    packed = ranking_of((text, {}, pieces)).pack(11, count=words, numbered=False)
    marked = f"{MARK}\n- red apples\n{MARK} Both are ripe.\n{MARK}\n- figs"
    assert packed.text == marked


def test_long_lines_of_code_are_divided():
    text = "if ripe:\n    " + "eat(apple); " * 60
    start = text.index("eat", 350)
    packed = ranking_of((text, {}, [(start, start + 11, 1.0)])).pack(5, count=words, numbered=False)
    assert packed.text == f"{MARK} eat(apple); {MARK}"


# ---------------------------------------------------------------------- copies and overlaps


def test_copies_are_packed_once():
    packed = ranking_of("red apples", "red apples").pack(100)
    assert (len(packed.sources), packed.left_out) == (1, {"repeated": (1,)})


def at(start, document="d"):
    return dict(zip(FIELDS, (document, start), strict=True))


LEFT, SHARED, RIGHT = "We saw trees. ", "They had many red apples. ", "It rained."


@pytest.mark.parametrize(
    ("passages", "expected", "left_out"),
    {
        "the later one is worse": (
            [LEFT + SHARED, SHARED + RIGHT],
            [LEFT + SHARED, f"{MARK} {RIGHT}"],
            {},
        ),
        "the later one is better": (
            [SHARED + RIGHT, LEFT + SHARED],
            [SHARED + RIGHT, f"{LEFT}{MARK}"],
            {},
        ),
        "between two others": (
            [LEFT + SHARED, RIGHT + SHARED[::-1], SHARED + " red. " + RIGHT + SHARED[::-1]],
            [LEFT + SHARED, RIGHT + SHARED[::-1], f"{MARK} red. {MARK}"],
            {},
        ),
        "a short overlap may be chance": (
            ["a b c. They", "They d e f."],
            ["a b c. They", "They d e f."],
            {},
        ),
        "by fields": (
            [("two three", at(4)), ("one two", at(0))],
            ["two three", f"one {MARK}"],
            {},
        ),
        "by fields, touching": (
            [("one two ", at(0)), ("three four", at(8))],
            ["one two ", "three four"],
            {},
        ),
        "another document": (
            [("one two", at(0)), ("two three", at(4, "e"))],
            ["one two", "two three"],
            {},
        ),
        "fields that are wrong": ([("one two", at(0)), ("three", at(4))], ["one two", "three"], {}),
        "white space only": ([("one ", at(0)), (" two", at(3))], ["one ", " two"], {}),
        "one within another": (
            [("one two three", at(0)), ("two", at(4))],
            ["one two three"],
            {"repeated": (1,)},
        ),
        "the larger one is worse": (
            [("two", at(4)), ("one two three", at(0))],
            ["two", f"one {MARK} three"],
            {},
        ),
        "covered by two": (
            [("one two", at(0)), ("three", at(8)), ("two three", at(4))],
            ["one two", "three"],
            {"repeated": (2,)},
        ),
    }.values(),
)
def test_text_that_passages_share_is_packed_once(passages, expected, left_out):
    packed = ranking_of(*passages).pack(100, neighbours=FIELDS, numbered=False)
    assert list(packed.passages) == expected
    assert packed.left_out == left_out
    assert [source.number for source in packed.sources] == [*range(1, len(expected) + 1)]


def test_what_is_not_packed_of_a_better_passage_covers_nothing():
    text = f"{LEFT}{'It rained all day. ' * 3}{SHARED}"
    passages = (text, {}, sentences_of(LEFT, [0.9])), (SHARED + RIGHT, {})
    packed = ranking_of(*passages).pack(11, count=words, numbered=False)
    assert packed.passages == (f"{LEFT.strip()} {MARK}", SHARED + RIGHT)


def test_lines_of_code_stay_whole_where_passages_overlap():
    at_word = CODE.index("for apple")
    one, other = CODE[: CODE.index("red\n")], CODE[at_word - 30 :]
    packed = ranking_of(one, other).pack(100, numbered=False)
    assert packed.passages[1] == f"{MARK}\n        total += apple.red\n    return total\n"


def test_different_names_are_different_documents():
    one, other = (LEFT + SHARED, {"title": "A"}), (SHARED + RIGHT, {"title": "B"})
    assert ranking_of(one, other).pack(100).passages == (one[0], other[0])


# ---------------------------------------------------------------------- order, counters, names


@pytest.mark.parametrize(
    ("order", "expected"),
    [("best", "a1 b0 a0 c0"), ("document", "a0 a1 b0 c0"), ("lost_in_the_middle", "a1 a0 c0 b0")],
)
def test_the_order_of_passages(order, expected):
    passages = [(name, at(100 * int(name[1]), name[0])) for name in ("a1", "b0", "a0", "c0")]
    packed = ranking_of(*passages).pack(50, order=order, neighbours=FIELDS, numbered=False)
    assert packed.text.split() == expected.split()


def test_an_ordering_that_places_the_best_at_both_ends_keeps_the_second_best():
    texts = [f"apples {'apples ' * (4 - number)}" for number in range(4)]
    plain = Reranker("lexical").rerank("apples", texts)
    placed = Reranker("lexical", order="lost_in_the_middle").rerank("apples", texts)
    kept = {source.position for source in plain.pack(10, count=words, numbered=False).sources}
    packed = placed.pack(10, count=words, numbered=False)
    assert {source.position for source in packed.sources} == kept
    assert [source.rank for source in packed.sources] == sorted(s.rank for s in packed.sources)


def test_documents_without_fields_keep_the_order_of_the_ranking():
    packed = ranking_of("one", "two", ("three", at(5))).pack(
        50, order="document", neighbours=FIELDS, numbered=False
    )
    assert packed.passages == ("one", "two", "three")


@pytest.mark.parametrize("count", COUNTERS[1:2] + COUNTERS[3:4])
def test_the_budget_is_that_of_the_given_counter(count):
    ranking = ranking_of("red apples", "red pears")  # each below a head of two words
    packed = ranking.pack(7, count=count)
    assert (packed.tokens, len(packed.sources), packed.left_out) == (4, 1, {"tokens": (1,)})
    assert ranking.pack(8, count=count).tokens == 8


def test_special_tokens_of_each_text_are_counted_once():
    assert ranking_of("a b c", "d e").pack(11, count=COUNTERS[4]).tokens == 11


def test_a_special_token_in_a_text_is_read_as_characters():
    def encode(text):
        raise ValueError(f"disallowed special token in {text}")

    tiktoken_like = SimpleNamespace(encode=encode, encode_ordinary=str.split)
    assert ranking_of("<|endoftext|>").pack(5, count=tiktoken_like).tokens == 3


def test_a_tokenizer_of_tokenizers_counts():
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"red": 0, "[UNK]": 1}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    packed = ranking_of("red apples").pack(10, count=tokenizer)
    assert packed.tokens == 4


def of_numpy(text):
    return pytest.importorskip("numpy").arange(len(text.split()))


@pytest.mark.parametrize(
    "count",
    [
        lambda text: {"input_ids": text.split(), "attention_mask": [1] * words(text)},
        lambda text: UserDict(input_ids=text.split(), token_type_ids=[]),
        lambda text: {"input_ids": [text.split()]},
        lambda text: [text.split()],
        lambda text: [(word, (0, 1)) for word in text.split()],
        lambda text: SimpleNamespace(ids=text.split()),
        lambda text: [SimpleNamespace(ids=text.split())],
        of_numpy,
        lambda text: of_numpy(text)[None],
        lambda text: {"input_ids": of_numpy(text)[None]},
        lambda text: of_numpy(text).size * of_numpy("one two")[1],
        lambda text: of_numpy(text).sum() * 0 + words(text),
    ],
)
def test_tokens_are_counted_in_each_form_that_tokenizers_return(count):
    ranking = ranking_of("red apples " * 400, "a red car")
    packed = ranking.pack(20, count=count, numbered=False)
    assert (packed.passages, packed.tokens) == (("a red car",), 3)


@pytest.mark.parametrize(
    "result",
    [
        {"tokens": 3},
        {},
        "three",
        "3",
        b"three",
        {"a", "b"},
        [["a"], ["b"]],
        -1,
        True,
        math.inf,
        None,
        iter("abc"),
    ],
)
def test_what_says_no_number_of_tokens_is_refused(result):
    with pytest.raises(InputError, match="count: must return a number of 0 or more, or the tokens"):
        ranking_of("red apples").pack(5, count=lambda _text: result)


def test_sources_are_named_by_their_metadata():
    named = {"title": "Fruit\nand trees", "url": "https://example.org"}
    packed = ranking_of(("red apples", named)).pack(50)
    assert packed.text.startswith("[1] Fruit and trees\n")
    assert dict(packed.sources[0].metadata) == named


def test_the_result_as_plain_values():
    record = ranking_of("red apples", "").pack(50).to_dict()
    assert record["sources"][0]["spans"] == [[0, 10]]
    assert record["left_out"] == {"no_text": [1]}
    assert record["passages"] == ["red apples"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"tokens": 0}, "tokens: give a whole number of 1 or more, not 0"),
        ({"tokens": 1.5}, "tokens: give a whole number"),
        ({"tokens": True}, "tokens: give a whole number"),
        ({"tokens": 5, "order": "worst"}, "order: must be 'best', 'document' or"),
        ({"tokens": 5, "count": lambda _text: math.nan}, "count: must return a number"),
        ({"tokens": 5, "count": lambda _text: None}, "count: must return a number"),
        ({"tokens": 5, "count": 5}, "count: give a tokenizer, or a function"),
        ({"tokens": 5, "neighbours": "source_id"}, "neighbours: give the names of two"),
    ],
)
def test_wrong_arguments(arguments, expected):
    with pytest.raises(InputError, match=expected):
        ranking_of("red apples").pack(**arguments)


def test_its_repr_has_no_text():
    ranking = ranking_of("a secret", "another", "a third one, with far more words than fit in here")
    packed = ranking.pack(8, count=words)
    assert "secret" in packed.text
    assert repr(packed) == f"<Packed: 2 sources, {packed.tokens} tokens, 1 left out>"
    assert repr(ranking.pack(500, count=words)).startswith("<Packed: 3 sources, ")
