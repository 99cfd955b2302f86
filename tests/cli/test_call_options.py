"""``secondpass rerank``: settings of single requests, ``--order``, and keys that are unknown."""

import pytest

from command_requests import json_lines
from secondpass import Reranker

LEXICAL = ("rerank", "--preset", "lexical", "--json")
CANDIDATES = [
    {"id": str(at), "text": f"owl {'owl ' * at} word", "level": level, "score": 1 - at / 10}
    for at, level in enumerate(["b", "a", "b", "a", "c"])
]


def request(**own):
    return {"query": "owl", "candidates": CANDIDATES, **own}


def ranked(told):
    assert told.code == 0, told.err
    return [[one["id"] for one in line["ranking"]] for line in told.lines()]


def expected(**settings):
    reranker = Reranker.from_preset("lexical")
    return [item.id for item in reranker.rerank("owl", CANDIDATES, **settings)]


def test_unknown_keys_are_told_once_and_ignored(secondpass):
    stdin = json_lines([request(), request(topk=1, answer="x"), request(topk=2)])
    told = secondpass(*LEXICAL, stdin=stdin)
    assert ranked(told) == [expected()] * 3
    hint = "standard input:2: the key 'topk' is unknown, and ignored; did you mean 'top_k'"
    assert told.flat.count(hint) == 1
    assert told.flat.count("the key 'topk'") == 1
    assert "standard input:2: the key 'answer' is unknown, and ignored" in told.flat


# ---------------------------------------------------------------------- --instruction


class Instructed:
    """Scores by whether the text has the last word of the instruction."""

    model_name = "instructed"
    takes_instruction = True

    def score_pairs(self, query, documents, *, instruction="owl"):
        word = instruction.split()[-1]
        return [float(document.split().count(word)) for document in documents]


ANIMALS = [{"id": word, "text": f"the {word}"} for word in ("cat", "owl", "dog")]


@pytest.fixture
def instructed(monkeypatch):
    """The command reranks by a scorer that takes an instruction."""
    reranker = Reranker(Instructed(), log_level="debug")
    monkeypatch.setattr("secondpass.cli.options.load", lambda _config: reranker)


@pytest.mark.usefixtures("instructed")
def test_instruction_of_the_command_and_of_a_request(secondpass):
    own = [{}, {"instruction": "rather the dog"}, {"instruction": None}, {"instruction": " "}]
    stdin = json_lines({"query": "q", "candidates": ANIMALS, **one} for one in own)
    told = secondpass(*LEXICAL, "--instruction", "prefer the cat", stdin=stdin)
    assert [one[0] for one in ranked(told)] == ["cat", "dog", "cat", "owl"]
    plain = secondpass(*LEXICAL, stdin=stdin)
    assert [one[0] for one in ranked(plain)] == ["owl", "dog", "owl", "owl"]
    for text in (told.out, told.err, plain.out, plain.err):
        assert "prefer" not in text
        assert "rather" not in text
