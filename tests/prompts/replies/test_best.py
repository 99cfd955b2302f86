"""The best document of a set, by its label in JSON or by the probability of its letter."""

import math

import pytest

from fakes import task_of
from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.label_lookup import Labels
from secondpass.prompts.replies.best import BestLabel, BestLetter

OPAQUE = Labels(["k4t", "b2c", "z9z"], None)
NUMBERS = Labels(["1", "2", "3"], 1)
LETTERS = Labels(["K", "B", "Z"], None)

READ = {
    "an object": ('{"best": "b2c"}', OPAQUE, 1),
    "in a fence": ('```json\n{"best": "b2c"}\n```', OPAQUE, 1),
    "after thinking": ('<think>k4t or z9z?</think>{"best": "b2c"}', OPAQUE, 1),
    "in prose": ('The best is {"best": "b2c"}, as it names the bird.', OPAQUE, 1),
    "in another object": ('{"answer": {"best": "b2c"}}', OPAQUE, 1),
    "with a prefix": ('{"best": "doc k4t"}', OPAQUE, 0),
    "the same twice": ('{"best": "b2c"} {"best": "b2c"}', OPAQUE, 1),
    "a label alone": (" B2C.\n", OPAQUE, 1),
    "a label alone in an array": ('["b2c"]', OPAQUE, 1),
    "a label in brackets": ("[z9z]", OPAQUE, 2),
    "a number": ('{"best": 3}', NUMBERS, 2),
    "a number alone": ("3", NUMBERS, 2),
}


@pytest.mark.parametrize(("text", "labels", "place"), READ.values(), ids=READ)
def test_label(text, labels, place):
    assert BestLabel().read(Completion(text), labels) == place


REFUSED = {
    "nothing": ("", OPAQUE),
    "prose": ("b2c is the best", OPAQUE),
    "a label that was not shown": ('{"best": "x7x"}', OPAQUE),
    "two labels": ('{"best": ["b2c", "k4t"]}', OPAQUE),
    "two answers": ('{"best": "b2c"} {"best": "k4t"}', OPAQUE),
    "one key with two values": ('{"best": "b2c", "best": "k4t"}', OPAQUE),
    "another key": ('{"worst": "b2c"}', OPAQUE),
    "no label": ('{"best": null}', OPAQUE),
    "cut off": ('{"best": "b2', OPAQUE),
    "a label behind thinking without a start tag": ("k4t or b2c?</think>b2c", OPAQUE),
    "counted from zero": ('{"best": 0}', NUMBERS),
    "counted too far": ('{"best": 4}', NUMBERS),
}


@pytest.mark.parametrize(("text", "labels"), REFUSED.values(), ids=REFUSED)
def test_refused_label(text, labels):
    with pytest.raises(ReplyError):
        BestLabel().read(Completion(text), labels)


def test_request_and_schema():
    assert BestLabel().request() == (
        'Reply with ONLY one JSON object with the id of the best: {"best": "<id>"}.'
    )
    assert BestLabel("index0").request() == (
        "Reply with ONLY one JSON object with the index of the best: "
        '{"best": <index>}. Indices count from 0.'
    )
    (best,) = BestLabel().schema(["a", "b"])["properties"].values()
    assert best == {"type": "string", "enum": ["a", "b"]}
    (best,) = BestLabel("index0").schema(["0", "1"])["properties"].values()
    assert best == {"type": "integer", "enum": [0, 1]}
    assert BestLetter(required=True).schema(["A", "B"]) is None


def reply(text, **token):
    logprobs = [{name: math.log(value) for name, value in token.items()}] if token else None
    return Completion(text, logprobs=logprobs)


CHOSEN = {
    "most probable": (reply("B", B=0.5, K=0.2, Z=0.1), 1),
    "spellings are added up": (reply("B", B=0.4, K=0.3, k=0.2), 0),
    "the likeliest letter behind other words": (reply("The", The=0.6, Z=0.2, K=0.1), 2),
    "equally probable": (reply("Z", Z=0.4, K=0.4), 0),
}


@pytest.mark.parametrize(("completion", "place"), CHOSEN.values(), ids=CHOSEN)
@pytest.mark.parametrize("required", [True, False])
def test_letter(completion, place, required):
    assert BestLetter(required).read(completion, LETTERS) == place


WRITTEN = {
    "no log probabilities": (reply("Z."), 2, "no_logprobs"),
    "in brackets": (reply("[Z]"), 2, "no_logprobs"),
    "those of another text": (reply("Z", Okay=0.9), 2, "no_logprobs"),
    "behind the end of thinking": (reply("K or Z, so</think>\nZ"), 2, "no_logprobs"),
    "another letter before": (reply("K</think>Z"), None, "reply_refused"),
    "no letter": (reply("It is Z"), None, "reply_refused"),
    "no letter among them": (reply("It", It=0.9), None, "reply_refused"),
    "nothing": (reply(""), None, "reply_refused"),
}


@pytest.mark.parametrize(("completion", "place", "code"), WRITTEN.values(), ids=WRITTEN)
def test_letter_as_written(completion, place, code):
    if place is None:
        with pytest.raises(ReplyError) as caught:
            BestLetter(required=False).read(completion, LETTERS)
        assert caught.value.code == code
        return
    assert BestLetter(required=False).read(completion, LETTERS) == place
    with pytest.raises(ReplyError) as caught:
        BestLetter(required=True).read(completion, LETTERS)
    assert caught.value.code == code


def test_letters_cannot_be_predicted(monkeypatch):
    from secondpass.prompts import labels as module

    task = task_of(["a", "b", "c"])
    drawn = BestLetter(True).label(task.query, task.texts, task.candidates).names
    assert drawn == BestLetter(True).label(task.query, task.texts, task.candidates).names
    assert len(set(drawn)) == 3
    others = set()
    for number in range(20):
        previous = module.replace_secret(bytes([number]))
        others.add(tuple(BestLetter(True).label(task.query, task.texts, ()).names))
        module.replace_secret(previous)
    assert len(others) > 15
    twenty = [str(number) for number in range(20)]
    assert len(set(BestLetter(True).label("q", twenty, ()).names)) == 20
