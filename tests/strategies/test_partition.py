"""Partition: what is asked, what counts, and the order of the paper's pseudocode."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Model, failing, in_answer, number_of, numbered, play, ranked, shown_in, task_of
from sampling import examples
from secondpass import ConfigurationError, Reranker
from secondpass.errors import LLMError, MethodError
from secondpass.strategies.partition import Partition


def judge(method, texts, reply=ranked):
    return play(method.judge(task_of(texts)), in_answer(reply))


def order_of(judgement):
    """The indices that have a score, best first."""
    scored = [index for index, score in enumerate(judgement.scores) if score is not None]
    return sorted(scored, key=lambda index: -judgement.scores[index])


def transcribed(values, window, cutoff, beats):
    """Algorithm 1 of the paper, with partitions of equal size; ``beats`` sorts a group."""

    def split(items, size):
        parts = -(-len(items) // size)
        return [
            items[len(items) * at // parts : len(items) * (at + 1) // parts] for at in range(parts)
        ]

    if len(values) <= 1:
        return values
    first, rest = values[:window], values[window:]
    first = beats(first)
    if not rest:
        return first
    candidates, pivot, backfill = first[: cutoff - 1], first[cutoff - 1], first[cutoff:]
    for part in split(rest, window - 1):
        compared = beats([pivot, *part])
        place = compared.index(pivot)
        candidates += compared[:place]
        backfill += compared[place + 1 :]
    if len(candidates) == cutoff - 1:
        return [*candidates, pivot, *backfill]
    return [*transcribed(candidates, window, cutoff, beats), pivot, *backfill]


@examples(20)
@given(
    st.integers(2, 60).flatmap(lambda count: st.permutations(range(count))),
    st.integers(2, 9),
    st.data(),
)
def test_order_is_that_of_the_pseudocode(numbers, window, data):
    cutoff = data.draw(st.integers(1, window - 1))
    judgement, _ = judge(Partition(Model(), window=window, cutoff=cutoff), numbered(numbers))
    best_first = lambda indices: sorted(indices, key=lambda index: -numbers[index])  # noqa: E731
    assert order_of(judgement) == transcribed(list(range(len(numbers))), window, cutoff, best_first)
    assert not judgement.issues


@pytest.mark.parametrize(
    ("count", "window", "cutoff", "calls"),
    [
        (2, 20, None, [1]),
        (20, 20, None, [1]),
        (21, 20, None, [1, 1]),
        (100, 20, None, [1, 5]),
        (100, 20, 5, [1, 5]),
        (5, 2, 1, [1, 3]),
    ],
)
def test_calls_if_nothing_beats_the_pivot(count, window, cutoff, calls):
    texts = numbered(range(count, 0, -1))
    judgement, asks = judge(Partition(Model(), window=window, cutoff=cutoff), texts)
    assert [len(ask.questions) for ask in asks] == calls
    assert order_of(judgement) == list(range(count))
    assert max(len(shown_in(question.request)) for ask in asks for question in ask.questions) <= (
        window
    )


def test_candidates_that_beat_the_pivot_are_ordered_with_the_best():
    # The pivot of the first window is 91; 92 to 101 are spread over the rest.
    numbers = [*range(100, 80, -1), *range(80), 101]
    judgement, asks = judge(Partition(Model()), numbered(numbers))
    assert [len(ask.questions) for ask in asks] == [1, 5, 1]
    assert [numbers[index] for index in order_of(judgement)][:11] == [101, *range(100, 90, -1)]


# ---------------------------------------------------------------------- questions without an answer


def test_first_window_without_an_answer_fails():
    with pytest.raises(MethodError, match="down"):
        judge(Partition(Model(), window=4), numbered(range(10)), failing(0))


def test_others_of_a_failed_question_are_unjudged():
    texts = numbered(range(10, 0, -1))
    judgement, _ = judge(Partition(Model(), window=4), texts, failing(1))
    assert judgement.unjudged == {4, 5, 6}
    assert order_of(judgement) == [0, 1, 2, 3, 7, 8, 9]
    assert [issue.code for issue in judgement.issues] == ["server_error"]
    assert not judgement.degraded


@pytest.mark.parametrize("failed", [3, 4], ids=["window", "comparison"])
def test_failure_at_a_later_level_keeps_what_is_known(failed):
    numbers = [1, 2, 3, 4, 11, 12, 13, 14, 15, 16]
    judgement, _ = judge(Partition(Model(), window=4), numbered(numbers), failing(failed))
    assert judgement.degraded
    assert not judgement.unjudged
    assert sorted(order_of(judgement)) == list(range(10))
    # Those that came before the first pivot stay before it.
    assert {numbers[index] for index in order_of(judgement)[:7]} == {4, *range(11, 17)}
    assert [issue.code for issue in judgement.issues] == ["server_error"]


def test_reply_without_the_pivot_compares_nothing():
    texts = numbered(range(10, 0, -1))  # the pivot is 9

    def reply(passages):
        left_out = 9 if 10 not in map(number_of, passages.values()) else None
        rest = {label: text for label, text in passages.items() if number_of(text) != left_out}
        return ranked(rest)

    judgement, _ = judge(Partition(Model(), window=4), texts, reply)
    assert judgement.unjudged == {4, 5, 6, 7, 8, 9}
    assert order_of(judgement) == [0, 1, 2, 3]
    codes = [issue.code for issue in judgement.issues]
    assert codes == ["not_in_reply", "windows_not_joined"]


@examples(25)
@given(st.integers(2, 50), st.integers(2, 8), st.integers(0, 10**6))
def test_nothing_wrong_is_made_of_any_reply(count, window, seed):
    draw = random.Random(seed)

    def reply(passages):
        labels = list(passages)
        draw.shuffle(labels)
        kind = draw.randrange(5)
        if kind == 0:
            return LLMError("the server is down", "server_error")
        return json.dumps(
            {"ranking": labels[: draw.randrange(len(labels) + 1) if kind == 1 else None]}
        )

    try:
        judgement, asks = judge(Partition(Model(), window=window), numbered(range(count)), reply)
    except MethodError:
        return
    scored = order_of(judgement)
    assert len({judgement.scores[index] for index in scored}) == len(scored)
    assert judgement.unjudged.isdisjoint(scored)
    assert all(
        len(shown_in(question.request)) <= window for ask in asks for question in ask.questions
    )


def test_both_ways_agree(rank):
    numbers = random.Random(5).sample(range(100), 60)
    reranker = Reranker({"type": "partition", "llm": lambda m: ranked(shown_in(m))}, depth=None)
    ranking = rank(reranker, "wombats", numbered(numbers))
    assert [numbers[at] for at in ranking.order][:9] == sorted(numbers)[::-1][:9]
    assert ranking.report.status == "ok"
    assert ranking.report.score_kind == "rank"


def test_single_candidate_is_left_alone():
    ranking = Reranker({"type": "partition", "llm": lambda m: "never asked"}).rerank("q", ["one"])
    assert (ranking.report.status, ranking.report.usage.calls) == ("ok", 0)
    assert ranking[0].status == "tail"


@pytest.mark.parametrize("cutoff", [20, 21])
def test_cutoff_is_below_the_window(cutoff):
    with pytest.raises(ConfigurationError, match=r"cutoff: must be smaller than the window \(20\)"):
        Reranker.from_config({"method": {"type": "partition", "llm": len, "cutoff": cutoff}})
