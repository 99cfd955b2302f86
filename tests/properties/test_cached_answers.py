"""A stored answer makes the ranking that the first answer made, with other labels too."""

import json
import math
import random
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from fakes import Model
from sampling import examples
from secondpass import Reranker
from secondpass.errors import LLMError
from secondpass.prompts.labels import replace_secret
from secondpass.questions import Completion

SOME = examples(15)

METHODS = [
    {"type": "graded", "batch_size": 4},
    {"type": "graded", "reply": "pairs", "labels": "index0"},
    {"type": "listwise", "window": 5},
    {"type": "listwise", "window": 6, "reply": "keyed"},
    {"type": "listwise", "reply": "ranked", "labels": "index1"},
    {"type": "blocks", "block": 4},
    {"type": "listwise", "shuffles": 3},
    {"type": "pointwise"},
]
IN_ORDER = [
    method for method in METHODS if method["type"] != "pointwise" and "shuffles" not in method
]
"""Methods whose questions about a list are not those about it in another order."""
texts = st.lists(st.text(min_size=1, max_size=30), min_size=2, max_size=12)
different = st.lists(st.text("abc", min_size=1, max_size=9), min_size=2, max_size=12, unique=True)


def replying(method, seed):
    """A reply that depends on the passages shown and their order, not on their labels."""

    def reply(shown):
        rng = random.Random(repr([seed, *shown.values()]))
        labels = list(shown)
        keep = [label for label in labels if rng.random() < 0.9] or labels
        rng.shuffle(keep)
        number = method.get("labels", "opaque").startswith("index")
        if method["type"] == "pointwise":
            probability = rng.uniform(0.01, 0.99)
            return _token({"Yes": probability, "No": 1 - probability})
        named = [int(label) if number else label for label in keep]
        if method["type"] == "graded":
            if method.get("reply") == "pairs":
                grades = [
                    {"id": name, "index": name, "score": rng.randint(0, 10)} for name in named
                ]
                return json.dumps({"grades": [_pair(one, number) for one in grades]})
            return json.dumps({label: rng.randint(0, 10) for label in keep})
        if method.get("reply") == "keyed":
            return json.dumps({label: rank for rank, label in enumerate(keep, 1)})
        if method.get("reply") == "ranked":
            return " > ".join(f"[{label}]" for label in keep)
        return json.dumps({"ranking": named})

    return reply


def _token(probabilities):
    logprobs = {text: math.log(value) for text, value in probabilities.items()}
    return Completion(next(iter(logprobs)), logprobs=[logprobs])


def _pair(grade, number):
    return {"index" if number else "id": grade["id"], "score": grade["score"]}


def silent(_shown):
    return LLMError("asked again", "asked_again")


def ranked(method, reply, folder, query, passages):
    llm = Model(reply, cache_key="model", has_logprobs=method["type"] == "pointwise")
    cache = Path(folder) / "answers.sqlite"
    reranker = Reranker({**method, "llm": llm}, cache=cache, depth=None)
    try:
        return reranker.rerank(query, passages), len(llm.prompts)
    finally:
        reranker.close()


@SOME
@given(
    st.sampled_from(METHODS), st.text(max_size=20), texts, st.integers(0, 9), st.binary(max_size=9)
)
def test_warm_equals_cold(method, query, passages, seed, secret):
    with TemporaryDirectory() as folder:
        cold, asked = ranked(method, replying(method, seed), folder, query, passages)
        before = replace_secret(secret)
        try:
            warm, again = ranked(method, silent, folder, query, passages)
        finally:
            replace_secret(before)
    # A method may ask the same again: the stored answer is used.
    answered = asked - cold.report.usage.repairs + cold.report.usage.cached
    assert again == 0
    assert warm.report.usage.cached == answered
    assert (warm.order, warm.items) == (cold.order, cold.items)
    assert warm.report.status == cold.report.status
    known = [issue for issue in cold.report.issues if issue.code != "asked_again"]
    assert list(warm.report.issues) == known


@SOME
@given(st.sampled_from(IN_ORDER), different, st.randoms())
def test_another_order_is_another_question(method, passages, rng):
    others = [list(one) for one in permutations(passages[:5]) if list(one) != passages[:5]]
    shuffled = rng.choice(others) + passages[5:]
    with TemporaryDirectory() as folder:
        ranked(method, replying(method, 0), folder, "q", passages)
        _, asked = ranked(method, replying(method, 1), folder, "q", shuffled)
    assert asked


@SOME
@given(
    st.sampled_from(METHODS),
    st.text("abcdefgh ", min_size=12, max_size=30),
    st.lists(st.text("abcdefgh ", min_size=12, max_size=30), min_size=2, max_size=8),
)
def test_the_file_has_no_text(method, query, passages):
    with TemporaryDirectory() as folder:
        ranked(method, replying(method, 0), folder, query, passages)
        stored = b"".join(file.read_bytes() for file in Path(folder).iterdir())
    assert b"places" in stored or b"values" in stored
    for text in (query, *passages):
        assert text.encode() not in stored
