"""What a ranking would take: against what it takes, by tables, and by its limits."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_provider import FakeProvider
from fakes import ByTable, Model, graded, numbered, ranked
from sampling import examples
from secondpass import Candidate, InputError, Reranker
from secondpass.effects import Ask, Judgement
from secondpass.evaluation.dry_run import expected_use
from secondpass.limits import Prices
from secondpass.prompts.questions import Questions
from secondpass.strategies.anchor import Anchor
from secondpass.strategies.base import Bounds
from secondpass.strategies.blocks import Blocks
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.cost_plan import ExceededLimit
from secondpass.strategies.endpoint import Endpoint
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise
from secondpass.strategies.pointwise import Pointwise

PRICES = Prices(1, 10)
STRATEGIES = {"listwise": ranked, "blocks": ranked, "graded": graded}


def within(number, bounds):
    return bounds[0] <= number <= bounds[1]


@examples(20)
@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.integers(0, 150),
    st.integers(1, 120),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_a_ranking_takes_what_was_planned(kind, count, depth, behind_another, random):
    model = Model(STRATEGIES[kind])
    settings = {"scale": [0, 200]} if kind == "graded" else {}
    method = {"type": kind, "llm": model, **settings}
    if behind_another:
        stages = [{"method": ByTable(), "depth": depth}, {**method, "depth": min(depth, 30)}]
        method = {"type": "cascade", "stages": stages}
    reranker = Reranker(method, depth=depth)
    texts = numbered(random.sample(range(count), count))
    planned = reranker.plan(count, tokens_per_passage=4)
    assert model.prompts == []
    usage = reranker.rerank("wombats", texts).report.usage
    whole = planned.total
    asked = len(model.prompts)
    assert within(asked, whole.calls)
    assert within(usage.rounds - (behind_another and count > 0), whole.rounds)
    assert usage.pairs == whole.pairs
    assert planned.exceeded == ()
    assert planned.notes == []


@examples(20)
@given(
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(1, 12),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_a_ranking_with_an_anchor_takes_what_was_planned(count, lift, depth, confirms, random):
    model = Model(graded)
    judge = {"type": "graded", "llm": model, "batch_size": 1, "scale": [0, 200], "floor": 10}
    confirm = {**judge, "depth": depth} if confirms else None
    anchor = {"lift": lift, "method": ByTable(), "confirm": confirm}
    reranker = Reranker({"type": "listwise", "llm": Model(ranked)}, anchor=anchor)
    planned = reranker.plan(count, tokens_per_passage=4)
    usage = reranker.rerank("wombats", numbered(random.sample(range(count), count))).report.usage
    assert within(usage.calls - (count > 1), planned.total.calls)
    assert within(usage.rounds - (count > 1), planned.total.rounds)
    most = max(0, min(depth, count - 1 - lift)) if confirms else 0
    assert [stage.calls for stage in planned.stages[2:]] == [(0, 2 * most)] * (most > 0)


def test_a_limit_that_a_confirmation_may_exceed():
    judge = {"type": "graded", "llm": Model(graded), "batch_size": 1}
    method = {"type": "listwise", "llm": Model(ranked)}
    reranker = Reranker(method, anchor={"lift": 3, "confirm": judge}, limits={"calls": 20})
    planned = reranker.plan(100)
    assert [stage.left_out for stage in planned.stages] == [0, None]
    assert planned.notes == ["limits.calls is 20, and the ranking may need 9 to 49"]
    assert [use.calls for use in expected_use(reranker, [("q", numbered(range(100)))])] == [9]


@pytest.mark.parametrize("kind", sorted(STRATEGIES))
def test_a_sample_is_estimated_as_a_dry_run_does(kind):
    reranker = Reranker({"type": kind, "llm": Model(prices=PRICES)})
    texts = [Candidate("kiwi " * number, str(number)) for number in range(1, 60)]
    planned = reranker.plan(texts, query="which fruit").total
    (expected,) = expected_use(reranker, [("which fruit", texts)])
    assert planned.calls[0] == expected.calls
    assert planned.pairs == expected.pairs
    assert planned.input_tokens[0] == pytest.approx(expected.input_tokens)
    assert planned.output_tokens[0] == pytest.approx(expected.output_tokens)
    assert planned.cost[0] == pytest.approx(expected.cost)


class AsksMore(Graded):
    """A strategy of a user's own, which asks more questions if an answer changes the order."""

    def bounds(self, count):
        return Bounds((5, 31), (1, 17))


def test_more_than_the_fewest_calls_take_more_in_proportion():
    stage = Reranker(AsksMore(Model(prices=PRICES))).plan(100, seconds_per_call=2).total
    assert (stage.calls, stage.rounds) == ((5, 31), (1, 17))
    for low, high in (stage.input_tokens, stage.output_tokens, stage.cost):
        assert high / low == pytest.approx(31 / 5)
    assert stage.seconds == (2, 2 * (17 + 14 // 8))


TIMES = [
    # method, concurrency, seconds
    (Listwise(Model()), 8, 9 * 1.5),
    (Blocks(Model()), 8, 3 * 1.5),
    (Blocks(Model()), 10, 2 * 1.5),
    (Blocks(Model()), 1, 11 * 1.5),
    (Graded(Model()), 8, 1.5),
    (Endpoint("tei", base_url="http://localhost"), 2, 3.0),
]


@pytest.mark.parametrize(("method", "concurrency", "seconds"), TIMES)
def test_time_is_that_of_the_rounds(method, concurrency, seconds):
    reranker = Reranker(method, limits={"concurrency": concurrency})
    assert reranker.plan(100).total.seconds is None
    assert reranker.plan(100, seconds_per_call=1.5).total.seconds == (seconds, seconds)


LIMITS = [
    # method, limits, exceeded, left out
    (Listwise, {}, [], 0),
    (Listwise, {"calls": 9}, [], 0),
    (Listwise, {"calls": 5}, ["calls"], 40),
    (Listwise, {"calls": 1}, ["calls"], 80),
    (Listwise, {"deadline": 20}, ["deadline"], 50),
    (Listwise, {"deadline": 27}, [], 30),  # it keeps a margin
    (Listwise, {"deadline": 33}, [], 0),
    (Listwise, {"deadline": 2}, ["deadline"], 100),
    (Graded, {"calls": 4}, ["calls"], 20),
    (Graded, {"deadline": 2}, ["deadline"], 100),
    (Graded, {"deadline": 3, "concurrency": 3}, ["deadline"], 40),
    (Graded, {"tokens": 100}, ["tokens"], 100),
    (Graded, {"cost": 1e-9}, ["cost"], 100),
    (Graded, {"calls": 2, "tokens": 100}, ["calls", "tokens"], 100),
    (Pointwise, {"calls": 70}, ["calls"], 30),
]


@pytest.mark.parametrize(("kind", "limits", "names", "left_out"), LIMITS)
def test_limits_that_are_too_low_are_named_and_what_they_leave_out(kind, limits, names, left_out):
    reranker = Reranker(kind(Model(prices=PRICES, has_logprobs=True)), limits=limits)
    planned = reranker.plan(100, seconds_per_call=3)
    assert [item.limit for item in planned.exceeded] == names
    assert planned.stages[0].left_out == left_out
    for item in planned.exceeded:
        assert item.allowed == limits[item.limit] < item.needed[1]
        assert any(note.startswith(f"limits.{item.limit} is ") for note in planned.notes)
    assert any("would leave out" in note for note in planned.notes) is (left_out > 0)


def test_a_fallback_is_left_its_time():
    settings = {"limits": {"deadline": 10}, "fallback": ["lexical"]}
    (item,) = Reranker(Listwise(Model()), **settings).plan(100, seconds_per_call=1).exceeded
    assert (item.limit, item.allowed) == ("deadline", 8)


@examples(20)
@given(st.permutations(range(12)), st.integers(1, 12), st.integers(0, 12), st.integers(1, 12))
def test_a_confirmation_is_planned(order, count, lift, depth):
    texts = numbered(order[:count])
    model, judge = Model(), Model(name="judge", prices=PRICES)
    confirm = {"method": Graded(judge, batch_size=1, scale=(0, 12)), "depth": depth}
    anchor = Anchor(lift, ByTable(dict.fromkeys(texts, 0.0)), confirm)
    method = Graded(model, batch_size=5, scale=(0, 12))
    reranker = Reranker(method, anchor=anchor, limits={"calls": -(-count // 5) + 2 * depth})
    planned = reranker.plan(texts, query="wombats")
    expected = expected_use(reranker, [("wombats", texts)])
    assert sum(use.calls for use in expected) == planned.total.calls[0]
    reranker.rerank("wombats", texts)
    asked = len(model.prompts) + len(judge.prompts)
    most = 2 * max(0, min(depth, count - 1 - lift))
    assert planned.total.calls == (len(model.prompts), len(model.prompts) + most)
    assert within(asked, planned.total.calls)
    assert planned.exceeded == ()
    if most:
        stage = planned.stages[-1]
        assert stage.method == "confirmation: graded by judge"
        assert (stage.candidates, stage.calls, stage.pairs) == (most // 2, (0, most), 0)
        assert stage.cost[0] == 0 < stage.cost[1]
        assert stage.left_out is None
    assert planned.notes == []


def test_stages_share_the_limits():
    model = Model(prices=PRICES)
    stages = [{"method": Graded(model)}, {"method": Listwise(model), "depth": 30}]
    planned = Reranker(Cascade(stages), limits={"calls": 6}).plan(100)
    assert [stage.calls for stage in planned.stages] == [(5, 5), (2, 2)]
    assert [stage.left_out for stage in planned.stages] == [0, 10]
    assert planned.exceeded == (ExceededLimit("calls", 6, (7, 7)),)


@pytest.mark.parametrize(
    ("window", "length", "shortened", "problem"),
    [(8000, 100, False, ""), (2000, 100, True, ""), (256, 100, True, "fit into the 256 tokens")],
)
def test_a_small_context_window_is_said(window, length, shortened, problem):
    reranker = Reranker(Listwise(Model(context_window=window)))
    planned = reranker.plan(100, tokens_per_passage=length)
    (stage,) = planned.stages
    assert problem in stage.problem
    if problem:
        assert stage.left_out == 100
        assert any(problem in note for note in planned.notes)
    else:
        assert stage.shortened is shortened
        assert any("context window" in note for note in planned.notes) is shortened


def test_local_models_and_unknown_prices_have_no_cost():
    local = Reranker(ByTable()).plan(30).total
    assert (local.calls, local.rounds, local.pairs) == ((0, 0), (0, 0), 30)
    assert local.input_tokens is local.cost is local.seconds is None
    assert Reranker(Graded(Model())).plan(30).total.cost is None
    model = Model(prices=PRICES)
    both = Cascade([{"method": Graded(model)}, {"method": Listwise(Model()), "depth": 5}])
    assert Reranker(both).plan(30).total.cost is None


class Own:
    """A method that states no bounds."""

    name, score_kind, scale = "own", "rank", None

    def __init__(self, model):
        self.inner = Listwise(model)

    def judge(self, task):
        return self.inner.judge(task)


def test_bounds_of_an_unknown_method_are_unknown():
    planned = Reranker(Own(Model())).plan(100, seconds_per_call=1)
    assert (planned.total.calls, planned.total.rounds) == (None, None)
    assert planned.total.pairs == 180
    assert planned.total.seconds == (9, 9)
    assert "? calls in ? rounds" in repr(planned)


def test_windows_of_long_texts_count():
    reranker = Reranker(
        Endpoint("tei", base_url="http://localhost"), passages={"size": 100, "overlap": 0}
    )
    whole = reranker.plan(20, tokens_per_passage=100).total
    assert whole.pairs == 80
    assert whole.calls == (3, 3)
    other = Reranker(Graded(Model()), passages={"size": 100, "overlap": 0})
    assert other.plan(20, tokens_per_passage=100).total.calls == (1, 1)


def voyage(provider):
    address = {"base_url": provider.base_url("voyage"), "api_key": "k"}
    prices = {"input": 1, "output": 1}
    return {"type": "endpoint", "api": "voyage", "model": "m", "prices": prices, **address}


@pytest.mark.parametrize(("count", "tokens"), [(50, 100), (13, 40_000), (5, 300_000), (7, 1000)])
def test_batches_that_are_split_by_their_tokens_count(count, tokens):
    with FakeProvider() as provider:
        reranker = Reranker(voyage(provider))
        planned = reranker.plan(count, tokens_per_passage=tokens).total
        ranking = reranker.rerank("abc " * 10, ["abc " * tokens] * count)
        assert planned.calls == (len(provider.requests),) * 2
        reranker.close()
    assert (planned.calls == (1, 1)) == (count * tokens < 480_000)
    assert planned.rounds == (1, 1)
    assert planned.input_tokens == pytest.approx((count * (tokens + 10),) * 2)
    assert planned.cost == pytest.approx((count * (tokens + 10) / 1e6,) * 2)
    assert ranking.report.usage.calls == planned.calls[0]


def test_windows_that_are_split_by_their_tokens_count():
    with FakeProvider() as provider:
        reranker = Reranker(voyage(provider), passages={"size": 500, "overlap": 0})
        planned = reranker.plan(13, tokens_per_passage=40_000).total
    assert planned.calls[0] > 1
    assert planned.input_tokens[0] > 13 * 40_000


def test_what_a_method_is_shown_is_of_the_length_that_was_given():
    reranker = Reranker(Graded(Model()), render={"fields": ["title", "body"], "labels": True})
    short, long = (reranker.plan(20, tokens_per_passage=size).total for size in (10, 110))
    assert long.input_tokens[0] - short.input_tokens[0] == pytest.approx(2000)


def test_depth_is_a_setting_or_an_option():
    reranker = Reranker(Graded(Model()), depth=40)
    assert reranker.plan(100).stages[0].candidates == 40
    planned = reranker.plan(100, depth=10)
    assert (planned.candidates, planned.stages[0].candidates) == (100, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, {}), "candidates: give a number from 0"),
        ((True, {}), "candidates: give a number from 0"),
        ((10**9, {}), "candidates: give a number from 0"),
        ((1.5, {}), "candidates: give a sequence"),
        ((5, {"tokens_per_passage": 0}), "tokens_per_passage: give a whole number above 0, not 0"),
        ((5, {"tokens_per_passage": 1.5}), "tokens_per_passage: give a whole number"),
        ((5, {"seconds_per_call": float("nan")}), "seconds_per_call: give a number above 0"),
        ((5, {"seconds_per_call": "1"}), "seconds_per_call: give a number above 0, not '1'"),
        ((5, {"depth": 0}), "depth: must be 1 or more"),
    ],
)
def test_wrong_arguments_are_input_errors(arguments, message):
    count, options = arguments
    with pytest.raises(InputError, match=message):
        Reranker(Graded(Model())).plan(count, **options)


@pytest.mark.parametrize("kind", sorted(STRATEGIES))
def test_no_prompt_is_rendered(monkeypatch, kind):
    monkeypatch.delattr(Questions, "_prompt")
    planned = Reranker({"type": kind, "llm": Model()}, limits={"tokens": 9000}).plan(100)
    assert planned.total.input_tokens[0] > 100 * 100


class Polite(Graded):
    """A strategy of a user's own, which edits the prompts."""

    def judge(self, task):
        plan, result = super().judge(task), None
        with suppress(StopIteration):
            while True:
                effect = plan.send(result)
                if isinstance(effect, Ask):
                    questions = [self._polite(question) for question in effect.questions]
                    effect = replace(effect, questions=questions)
                result = yield effect
        return Judgement([0.5] * len(task.texts))

    def _polite(self, question):
        (turn,) = question.request.turns
        turns = (replace(turn, text=f"{turn.text}\nThank you."),)
        return replace(question, request=replace(question.request, turns=turns))


def test_a_strategy_that_edits_its_prompts_is_planned():
    model = Model(graded)
    reranker = Reranker(Polite(model))
    (stage,) = reranker.plan(30).stages
    assert not stage.problem
    assert stage.input_tokens == Reranker(Graded(Model())).plan(30).stages[0].input_tokens
    reranker.rerank("q", ["a", "b"])
    assert model.prompts[0].turns[0].text.endswith("Thank you.")


def test_an_instruction_is_part_of_every_prompt():
    reranker = Reranker({"type": "graded", "llm": Model(graded), "batch_size": 10})
    plain, instructed = (
        reranker.plan(30, instruction=text).stages[0] for text in (None, "prefer " + "recent " * 40)
    )
    assert instructed.calls == plain.calls == (3, 3)
    assert instructed.input_tokens[0] - plain.input_tokens[0] >= 3 * 7 * 40 / 4
    with pytest.raises(InputError, match="instruction: give a string"):
        reranker.plan(30, instruction=5)
