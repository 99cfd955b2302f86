"""Setwise: the order of the authors' code, what is asked, and questions without an answer."""

import json
import math
import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fakes
from fakes import Model, in_answer, number_of, numbered, play, shown_in, task_of
from sampling import examples
from secondpass import ConfigurationError, Reranker
from secondpass.effects import Completion, RoundsLeft
from secondpass.errors import BudgetError, DeadlineError, LLMError, MethodError
from secondpass.strategies.setwise import Setwise

counts = st.integers(2, 60)
sizes = st.integers(3, 9)


def letter(label, passages):
    """A reply by log probabilities, in which this label is the most probable."""
    token = {label: 0.5, **{other: 0.01 for other in passages if other != label}}
    return Completion(label, logprobs=[{name: math.log(value) for name, value in token.items()}])


def honest(passages):
    """Names the passage with the highest number."""
    best = max(passages, key=lambda label: number_of(passages[label]))
    return letter(best, passages) if len(best) == 1 else json.dumps({"best": best})


def judge(method, texts, reply=honest, rounds=lambda asked: None):
    return play(method.judge(task_of(texts)), in_answer(reply), rounds)


def order_of(judgement):
    """The indices that have a score, best first."""
    scored = [index for index, score in enumerate(judgement.scores) if score is not None]
    return sorted(scored, key=lambda index: -judgement.scores[index])


# ---------------------------------------------------------------------- the authors' code


class Transcribed:
    """``SetwiseLlmRanker`` of the authors, with ``compare`` as a function."""

    def __init__(self, num_child, k, compare):
        self.num_child, self.k, self.compare = num_child, k, compare
        self.calls = 0

    def heapify(self, arr, n, i):
        if self.num_child * i + 1 < n:
            last = min(self.num_child * (i + 1) + 1, n)
            inds = [i, *range(self.num_child * i + 1, last)]
            self.calls += 1
            largest = inds[self.compare([arr[index] for index in inds])]
            if largest != i:
                arr[i], arr[largest] = arr[largest], arr[i]
                self.heapify(arr, n, largest)

    def heap_sort(self, arr):
        n = len(arr)
        ranked = 0
        for i in range(n // self.num_child, -1, -1):
            self.heapify(arr, n, i)
        for i in range(n - 1, 0, -1):
            arr[i], arr[0] = arr[0], arr[i]
            ranked += 1  # noqa: SIM113 - as it stands there
            if ranked == self.k:
                break
            self.heapify(arr, i, 0)

    def rerank(self, count):
        ranking = list(range(count))
        self.heap_sort(ranking)
        first = ranking[::-1][: self.k]
        return first + [index for index in range(count) if index not in first]


def any_judge(seed):
    """A place for each list of indices; it contradicts itself, and always says the same."""
    return lambda indices: random.Random(f"{seed} {indices}").randrange(len(indices))


@examples(20)
@given(counts, sizes, st.integers(1, 70), st.integers(0, 10**6), st.sampled_from(["auto", "reply"]))
def test_order_and_calls_are_those_of_the_authors_code(count, size, best, seed, by):
    compare = any_judge(seed)
    expected = Transcribed(size - 1, best, compare)
    order = expected.rerank(count)

    def reply(passages):
        labels = list(passages)
        label = labels[compare([number_of(text) for text in passages.values()])]
        return letter(label, passages) if by == "auto" else json.dumps({"best": label})

    method = Setwise(Model(has_logprobs=True), set_size=size, best=best, by=by)
    judgement, asks = judge(method, numbered(range(count)), reply)
    assert order_of(judgement) == order
    assert (judgement.issues, judgement.degraded) == ([], False)
    # Theirs lets the last one sink to its end, which changes nothing.
    calls = sum(len(ask.questions) for ask in asks)
    bounds = method.bounds(count)
    assert bounds.calls[0] <= calls <= expected.calls <= bounds.calls[1]
    assert bounds.rounds[0] <= len(asks) <= bounds.rounds[1]
    if best == 1:
        assert calls == expected.calls


@examples(15)
@given(st.permutations(range(50)), sizes, st.integers(1, 60))
def test_an_exact_judge_finds_the_best(numbers, size, best):
    judgement, _ = judge(Setwise(Model(), set_size=size, best=best), numbered(numbers))
    found = [numbers[index] for index in order_of(judgement)]
    assert found[:best] == sorted(numbers, reverse=True)[:best]
    rest = [numbers.index(number) for number in found[best:]]
    assert rest == sorted(rest)


@pytest.mark.parametrize("by", ["reply", "logprobs"])
def test_about_125_calls(by):
    # As a retriever does it: more of the best stand at the top.
    draw = random.Random(3)
    numbers = sorted(range(100), key=lambda number: draw.gauss(-number, 40))
    method = Setwise(Model(has_logprobs=True), by=by)
    judgement, asks = judge(method, numbered(numbers))
    assert 115 <= sum(len(ask.questions) for ask in asks) <= 135
    assert [numbers[index] for index in order_of(judgement)[:10]] == [*range(99, 89, -1)]
    shown = [question.documents for ask in asks for question in ask.questions]
    assert max(shown) == 3
    # Most of the heap of 6 levels is built side by side; then several sink at a time.
    assert len(asks[0].questions) == 25
    assert len(asks) <= 40


def test_fewest_calls_if_the_best_come_last_of_each_set():
    texts = numbered(range(100, 0, -1))
    _, asks = judge(Setwise(Model(), best=1), texts)
    assert [len(ask.questions) for ask in asks] == [25, 13, 6, 3, 2, 1]


# ---------------------------------------------------------------------- how the best is chosen


def test_letters_are_shown_where_log_probabilities_count():
    method = Setwise(Model(has_logprobs=True), set_size=20)
    _, asks = judge(method, numbered(range(20)))
    labels = [label for ask in asks for q in ask.questions for label in shown_in(q.request)]
    assert {len(label) for label in labels} == {1}
    assert all(label.isupper() for label in labels)
    prompts = [question.request for ask in asks for question in ask.questions]
    assert {(prompt.logprobs, prompt.needs_logprobs, prompt.schema) for prompt in prompts} == {
        (20, False, None)
    }


def test_logprobs_can_be_required():
    method = Setwise(Model(has_logprobs=True), by="logprobs")
    _, asks = judge(method, numbered(range(3)))
    assert asks[0].questions[0].request.needs_logprobs
    with pytest.raises(MethodError, match="has no log probabilities"):
        judge(method, numbered(range(3)), lambda passages: next(iter(passages)))


def test_without_them_the_reply_counts():
    def written(passages):
        return max(passages, key=lambda label: number_of(passages[label]))

    numbers = [4, 1, 9, 7, 2, 8]
    judgement, asks = judge(Setwise(Model(has_logprobs=True)), numbered(numbers), written)
    assert [numbers[index] for index in order_of(judgement)] == [9, 8, 7, 4, 2, 1]
    judgement, asks = judge(Setwise(Model()), numbered(numbers))
    request = asks[0].questions[0].request
    assert (request.logprobs, list(request.schema["properties"])) == (0, ["best"])


def test_a_model_without_them_is_an_error_where_they_are_required():
    message = "llm: log probabilities are not supported by this model"
    with pytest.raises(ConfigurationError, match=message):
        Reranker({"type": "setwise", "llm": Model(), "by": "logprobs"})


@pytest.mark.parametrize("settings", [{"set_size": 2}, {"set_size": 21}, {"best": 0}, {"by": "x"}])
def test_wrong_settings(settings):
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        Reranker.from_config({"method": {"type": "setwise", "llm": honest, **settings}})


# ---------------------------------------------------------------------- questions without an answer


DOWN = LLMError("the server is down", "server_error")


failing = partial(fakes.failing, honest=honest)


def failing_about(*indices):
    """Replies honestly, but to questions about all of these indices of ``numbered``."""

    def reply(passages):
        shown = {number_of(text) for text in passages.values()}
        return DOWN if shown.issuperset(indices) else honest(passages)

    return reply


def test_no_answer_fails():
    with pytest.raises(MethodError, match="down"):
        judge(Setwise(Model()), numbered(range(10)), lambda passages: DOWN)


def test_leaves_of_a_failed_question_are_unjudged():
    # Children of place 3 are 7 and 8.
    method, texts = Setwise(Model(), best=1), numbered(range(20, 9, -1))
    judgement, _ = judge(method, texts, failing_about(17, 13, 12))
    assert judgement.unjudged == {7, 8}
    assert order_of(judgement) == [0, 1, 2, 3, 4, 5, 6, 9, 10]
    assert not judgement.degraded
    codes = [(issue.code, issue.positions) for issue in judgement.issues]
    assert codes == [("server_error", (3, 7, 8)), ("windows_not_joined", (7, 8))]


def test_what_is_below_a_failed_question_is_found_if_that_comes_to_the_top():
    # The best are below the first of all, about which the question fails once.
    numbers = [50, 10, 11, 12, 13, 14, 15]
    judgement, asks = judge(Setwise(Model(), best=3), numbered(numbers), failing(2))
    assert [ask.questions[0].documents for ask in asks][:2] == [3, 3]
    found = [numbers[index] for index in order_of(judgement)]
    assert found[:2] == [15, 14]
    assert judgement.unjudged == {0}
    assert judgement.degraded


def test_failure_while_taking_keeps_what_was_taken():
    numbers = random.Random(1).sample(range(40), 40)
    clean, asks = judge(Setwise(Model(), best=5), numbered(numbers))
    questions = sum(len(ask.questions) for ask in asks)
    judgement, _ = judge(Setwise(Model(), best=5), numbered(numbers), failing(questions - 1))
    assert judgement.degraded
    assert not judgement.unjudged
    assert order_of(judgement)[:4] == order_of(clean)[:4]
    assert [issue.code for issue in judgement.issues] == ["server_error"]


@pytest.mark.parametrize("error", [BudgetError("no more calls"), DeadlineError("too late")])
def test_after_a_limit_nothing_more_is_asked(error):
    numbers = random.Random(1).sample(range(40), 40)
    building = judge(Setwise(Model(), best=1), numbered(numbers))[1]
    built = sum(len(ask.questions) for ask in building)
    limit = failing(*range(built + 2, 10_000), error=error)
    judgement, asks = judge(Setwise(Model(), best=10), numbered(numbers), limit)
    assert built + 3 <= sum(len(ask.questions) for ask in asks) <= built + 5
    assert judgement.degraded
    assert not judgement.unjudged
    assert numbers[order_of(judgement)[0]] == 39
    assert sorted(order_of(judgement)) == list(range(40))
    # The heap is not complete: what was compared says nothing of the top.
    with pytest.raises(MethodError, match=str(error)):
        judge(Setwise(Model()), numbered(numbers), failing(*range(5, 10_000), error=error))


@pytest.mark.parametrize(("calls", "size"), [(151, 100), (150, 99), (30, 11), (1, 2), (0, 2)])
def test_last_candidates_are_left_out_if_the_limits_require_it(calls, size):
    method = Setwise(Model())
    judgement, asks = judge(method, numbered(range(100)), rounds=lambda asked: calls)
    shown = {number_of(t) for a in asks for q in a.questions for t in shown_in(q.request).values()}
    assert shown == set(range(size))
    assert judgement.unjudged == set(range(size, 100))
    assert [issue.code for issue in judgement.issues] == ["budget"] * (size < 100)
    assert sum(len(ask.questions) for ask in asks) <= max(1, calls)
    assert order_of(judgement)[0] == size - 1


def test_time_for_few_rounds_is_time_for_many_questions():
    """How many rounds a deadline leaves says nothing of the questions side by side in them."""
    plan = Setwise(Model()).judge(task_of(numbered(range(100))))
    effect = next(plan)
    while isinstance(effect, RoundsLeft):
        effect = plan.send(8)
    assert len(effect.questions) == 25  # the lowest sets of 100 candidates


@examples(20)
@given(counts, sizes, st.integers(1, 30), st.integers(0, 10**6))
def test_nothing_wrong_is_made_of_any_reply(count, size, best, seed):
    draw = random.Random(seed)

    def reply(passages):
        kind = draw.randrange(8)
        if kind == 0:
            return DOWN
        if kind == 1:
            return draw.choice(["", "no", '{"best": "zzz"}', "[]", '{"best": null}'])
        label = draw.choice(list(passages))
        return letter(label, passages) if len(label) == 1 else json.dumps({"best": label})

    by = draw.choice(["auto", "reply"])
    method = Setwise(Model(has_logprobs=True), set_size=size, best=best, by=by)
    try:
        judgement, asks = judge(method, numbered(range(count)), reply)
    except MethodError:
        return
    scored = order_of(judgement)
    assert len({judgement.scores[index] for index in scored}) == len(scored)
    assert judgement.unjudged == set(range(count)) - set(scored)
    reported = {index for issue in judgement.issues for index in issue.positions}
    assert judgement.unjudged <= reported
    failures = {"server_error", "reply_refused", "empty_reply"}
    if judgement.degraded:
        assert failures & {issue.code for issue in judgement.issues}
    assert all(q.documents <= size for ask in asks for q in ask.questions)


# ---------------------------------------------------------------------- rankings


def test_both_ways_agree(rank):
    numbers = random.Random(5).sample(range(100), 60)
    reranker = Reranker({"type": "setwise", "llm": lambda m: honest(shown_in(m))}, depth=None)
    ranking = rank(reranker, "wombats", numbered(numbers))
    assert [numbers[at] for at in ranking.order][:10] == sorted(numbers)[::-1][:10]
    report = ranking.report
    assert (report.status, report.score_kind) == ("ok", "rank")
    bounds = reranker.method.bounds(60)
    assert bounds.calls[0] <= report.usage.calls <= bounds.calls[1]
    assert bounds.rounds[0] <= report.usage.rounds <= bounds.rounds[1]


def test_limited_calls_are_kept_to():
    ranking = Reranker(
        {"type": "setwise", "llm": lambda m: honest(shown_in(m))}, limits={"calls": 30}
    ).rerank("wombats", numbered(range(100)))
    assert ranking.report.usage.calls <= 30
    assert ranking.report.status == "partial"
    assert ranking[0].text == "10 wombats"


def test_single_candidate_is_left_alone():
    ranking = Reranker({"type": "setwise", "llm": lambda m: "never asked"}).rerank("q", ["one"])
    assert (ranking.report.status, ranking.report.usage.calls) == ("ok", 0)
    assert ranking[0].status == "tail"
