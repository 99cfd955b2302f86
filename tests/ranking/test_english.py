"""Lists in English are recognized as such whatever they are, and most others as not English.

The lists are in `languages/`: paragraphs are candidates.
"""

import tomllib
from pathlib import Path

import pytest

from secondpass.ranking.english import judge, measure_foreign, measure_unreadable_query
from secondpass.scorers.embedding.minilm import load_tokenizer

FOLDER = Path(__file__).parent / "languages"


def read(name):
    """(name, query, candidates) of each list of a file."""
    lists = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return [
        (name, one["query"], [text for text in one["texts"].split("\n\n") if text.strip()])
        for name, one in lists.items()
    ]


ENGLISH, OTHER, UNREADABLE = read("english"), read("other"), read("unreadable")
LISTS = {name: [query, *texts] for name, query, texts in ENGLISH + OTHER}
TOO_LITTLE = {"german_keywords"}
"""Capitalized nouns without function words, which might as well be names."""


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer()


def named(lists):
    return pytest.mark.parametrize(
        ("query", "texts"), [one[1:] for one in lists], ids=[one[0] for one in lists]
    )


@named(ENGLISH + UNREADABLE)
def test_english_of_every_kind_is_not_foreign(query, texts, tokenizer):
    assert measure_foreign(query, texts, tokenizer) is None
    assert all(measure_unreadable_query(one, tokenizer) is None for one in (query, *texts))
    for start in range(0, len(texts), 3):
        assert measure_foreign(query, texts[start : start + 3], tokenizer) is None
    for text in texts:
        assert measure_foreign(query, [text], tokenizer) is None
        assert measure_foreign(text, [], tokenizer) is None


@named([one for one in OTHER if one[0] not in TOO_LITTLE])
def test_other_languages_are_foreign(query, texts, tokenizer):
    assert measure_foreign(query, texts, tokenizer) is not None
    assert measure_foreign(query, texts[::-1], tokenizer) is not None
    assert measure_foreign("", texts, tokenizer) is not None


GERMAN, PROSE = LISTS["german"], LISTS["prose"]
CASES = {
    "nothing": ("", [], False),
    "half English": (GERMAN[0], [*GERMAN[1:4], *PROSE[1:4]], False),
    "a German query": (GERMAN[0], PROSE[1:], False),
    "an English query": (PROSE[0], GERMAN[1:], True),
    "English after the first 20": (GERMAN[0], GERMAN[1:6] * 4 + PROSE * 20, True),
    "English after the first 500 characters": (
        GERMAN[0],
        [" ".join(GERMAN * 5)[:500] + " ".join(PROSE * 40)],
        True,
    ),
    "German after the first 20": (PROSE[0], PROSE[1:6] * 4 + GERMAN * 20, False),
    "an English title with accents": ("", ["Crème Brûlée and Café Décor: Déjà Vu at Zoë's"], False),
    "capitals": ("", ["ÖFFNUNGSZEITEN UND PREISE FÜR GÄSTE ÜBER 60 JAHRE"], True),
}


@pytest.mark.parametrize(("query", "texts", "foreign"), CASES.values(), ids=CASES)
def test_what_is_read(query, texts, foreign, tokenizer):
    assert (measure_foreign(query, texts, tokenizer) is not None) == foreign


QUERIES = tomllib.loads((FOLDER / "queries.toml").read_text(encoding="utf-8"))


def test_a_message_does_not_say_that_the_query_is_not_english(tokenizer):
    query, texts, _ = next(case for case in CASES.values() if case[2])
    (issue,) = judge("auto", query, texts, tokenizer).issues
    assert issue.message.startswith("the list is not English (query and candidates together: ")
    assert "use the preset multilingual" in issue.message


@pytest.mark.parametrize(
    ("query", "issues"),
    [
        (GERMAN[0], 0),  # too short to tell
        ("Welche Bücher kann ich für eine Reise in den Süden ausleihen?", 1),
        (PROSE[0], 0),
        ("Crème Brûlée for beginners", 0),
        ("Müller Straße opening hours", 0),
    ],
)
def test_a_query_in_another_language_than_its_candidates(query, issues, tokenizer):
    for language in ("auto", "keep", "lean"):
        verdict = judge(language, query, PROSE[1:], tokenizer)
        assert verdict.original is None
        assert [issue.code for issue in verdict.issues] == ["not_english"] * issues
        assert all(one.message.startswith("the query is not English") for one in verdict.issues)
    assert judge("ignore", query, PROSE[1:], tokenizer).issues == ()


UNREADABLE_QUERIES, READABLE_QUERIES = QUERIES["unreadable"], QUERIES["readable"]


@pytest.mark.parametrize("query", UNREADABLE_QUERIES.values(), ids=UNREADABLE_QUERIES)
@pytest.mark.parametrize("candidates", ["prose", "python"])
def test_an_unreadable_query_keeps_the_order_of_english(query, candidates, tokenizer):
    texts = LISTS[candidates][1:]
    for count in (1, len(texts)):
        (issue,) = judge("auto", query, texts[:count], tokenizer).issues
        assert issue.code == "not_english"
        assert judge("auto", query, texts[:count], tokenizer).original == 1
        assert judge("lean", query, texts[:count], tokenizer).original == 0.5
        assert judge("ignore", query, texts[:count], tokenizer).issues == ()
    (issue,) = judge("auto", query, texts * 5, tokenizer).issues
    assert issue.message.startswith("the query is not in Latin letters (")
    assert "the candidates' order is kept" in issue.message
    assert query not in issue.message


@pytest.mark.parametrize("query", READABLE_QUERIES.values(), ids=READABLE_QUERIES)
@pytest.mark.parametrize("candidates", ["prose", "python"])
def test_a_query_with_other_letters_for_english(query, candidates, tokenizer):
    assert judge("auto", query, LISTS[candidates][1:], tokenizer).original is None


LETTERS_OF_THEIR_OWN = (
    "greek russian ukrainian arabic persian hebrew hindi bengali chinese thai".split()
)
VERDICTS = {
    "prose": {"auto": None, "keep": None, "lean": None, "ignore": None},
    "tags": {"auto": None, "keep": None, "lean": None, "ignore": None},
    **{
        name: {"auto": 0.5, "keep": 1, "lean": 0.5, "ignore": None}
        for name in "german turkish finnish vietnamese".split()
    },
    **{name: {"auto": 1, "keep": 1, "lean": 0.5, "ignore": None} for name in LETTERS_OF_THEIR_OWN},
}


@pytest.mark.parametrize("name", VERDICTS)
def test_settings(name, tokenizer):
    query, *texts = LISTS[name]
    for language, original in VERDICTS[name].items():
        verdict = judge(language, query, texts, tokenizer)
        assert verdict.original == original
        assert [issue.code for issue in verdict.issues] == ["not_english"] * (original is not None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("german", ["0% English function words", "2.3 word pieces a word", "half the weight"]),
        ("chinese", ["70% of the word pieces unknown", "order is kept"]),
    ],
)
def test_the_message_says_what_was_seen_and_what_to_do(name, words, tokenizer):
    query, *texts = LISTS[name]
    (issue,) = judge("auto", query, texts, tokenizer).issues
    assert all(part in issue.message for part in [*words, "multilingual", "language: ignore"])
    assert not any(text in issue.message for text in [query, *texts])
