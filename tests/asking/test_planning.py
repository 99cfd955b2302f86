"""What a ranking would take: against what it takes, by tables, and by its limits."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_provider import FakeProvider
from fakes import ByTable, Model, graded, ranked, shown_in
from sampling import examples
from secondpass import Candidate, InputError, Reranker
from secondpass.apis.decisions import Decisions
from secondpass.apis.endpoint import Endpoint
from secondpass.asking import drivers
from secondpass.effects import Ask, Judgement
from secondpass.limits import Prices
from secondpass.questions import Completion
from secondpass.ranking.candidates import to_requests
from secondpass.ranking.cost_plan import ExceededLimit
from secondpass.strategies.blocks import Blocks
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise
from secondpass.strategies.pointwise import Pointwise

PRICES = Prices(1, 10)


# ---------------------------------------------------------------------- what a ranking takes


def with_shuffles(**settings):
    return st.fixed_dictionaries({**settings, "shuffles": st.integers(1, 3)})


sizes = st.integers(2, 40)
windows = st.just({"window": None}) | sizes.flatmap(
    lambda size: st.integers(1, size - 1).map(lambda stride: {"window": size, "stride": stride})
)
SETTINGS = {
    "graded": with_shuffles(batch_size=st.none() | sizes, judge_single=st.booleans()),
    "listwise": st.builds(lambda window, runs: window | runs, windows, with_shuffles()),
    "blocks": with_shuffles(block=sizes, copies=st.integers(2, 4), final=st.integers(0, 40)),
    "pointwise": st.just({}),
    "endpoint": st.fixed_dictionaries({"batch_size": st.none() | sizes}),
    "lexical": st.just({}),
}


@st.composite
def methods(draw):
    """The description of a method, or of a cascade of them; cascades may nest."""
    described = st.sampled_from(sorted(SETTINGS)).flatmap(
        lambda kind: SETTINGS[kind].map(lambda settings: {"type": kind, **settings})
    )
    if draw(st.booleans()):
        return draw(described)
    depths = sorted(draw(st.lists(st.integers(1, 90), min_size=2, max_size=3)), reverse=True)
    cascade = {"type": "cascade", "stages": [{**draw(described), "depth": it} for it in depths]}
    if draw(st.booleans()):
        stages = [{**cascade, "depth": depths[0]}, {**draw(described), "depth": depths[-1]}]
        cascade = {"type": "cascade", "stages": stages}
    return cascade


class AnyOrder(Model):
    """Answers every question in full, with grades or an order that contradict each other."""

    def __init__(self, draw):
        super().__init__(has_logprobs=True)
        self.draw = draw

    async def complete(self, prompt):
        self.prompts.append(prompt)
        if prompt.schema is None:
            return Completion("Yes", logprobs=[{"Yes": -self.draw.random(), "No": -2.0}])
        labels = list(shown_in(prompt))
        if "ranking" in json.dumps(prompt.schema):
            return Completion(json.dumps({"ranking": self.draw.sample(labels, len(labels))}))
        return Completion(json.dumps({label: self.draw.randrange(11) for label in labels}))


@pytest.fixture(scope="module")
def server():
    with FakeProvider() as provider:
        yield provider


def asking(described, llm, server):
    """The description with a language model or an address in each method that asks."""
    match described["type"]:
        case "cascade":
            stages = [asking(stage, llm, server) for stage in described["stages"]]
            return {**described, "stages": stages}
        case "endpoint":
            return {**described, "api": "tei", "base_url": server.base_url("tei")}
        case "lexical":
            return described
    return {**described, "llm": llm}


@examples(20)
@given(
    methods(),
    st.integers(0, 100),
    st.integers(1, 120),
    st.none() | st.integers(12, 60),
    st.randoms(use_true_random=False),
)
def test_a_ranking_takes_what_was_planned(server, described, count, depth, size, random):
    llm = AnyOrder(random)
    passages = None if size is None else {"size": size}
    reranker = Reranker(asking(described, llm, server), depth=depth, passages=passages)
    texts = [f"{number:03} wombats and some more words" for number in range(count)]
    planned = reranker.plan(texts, query="wombats")
    (item,) = reranker._passes(
        to_requests([("wombats", texts)], text_needed=True), reranker._settings({})
    )
    before = server.calls
    assert llm.prompts == []
    (ranking,) = drivers.run([item])
    requests = server.calls - before
    reranker.close()
    assert {issue.code for issue in ranking.report.issues} <= {"scores_equal"}
    whole = planned.total
    assert whole.calls == len(llm.prompts) + requests == item.ledger.questions
    assert whole.rounds == item.ledger._question_rounds
    assert (planned.exceeded, planned.notes) == ((), [])
    if size is None:
        assert whole.pairs == ranking.report.usage.pairs
    if size is None and not requests:  # a server reports other tokens than are estimated
        estimated = (whole.input_tokens or 0) + (whole.output_tokens or 0)
        assert item.ledger._spent.tokens == pytest.approx(estimated)


LLM = Model(has_logprobs=True)
KEY = {"model": "m", "api_key": "k"}
FIGURES = [
    # method, candidates, calls, rounds
    (Listwise(LLM), 100, 9, 9),
    (Listwise(LLM, window=None), 100, 1, 1),
    (Listwise(LLM), 21, 2, 2),
    (Blocks(LLM), 100, 11, 2),
    (Blocks(LLM, final=0), 100, 10, 1),
    (Graded(LLM), 100, 5, 1),
    (Graded(LLM, shuffles=3), 100, 15, 1),
    (Listwise(LLM, shuffles=3), 100, 27, 9),
    (Graded(LLM, judge_single=False), 1, 0, 0),
    (Pointwise(LLM), 100, 100, 1),
    (Endpoint("tei", base_url="http://localhost"), 100, 4, 1),
    (Endpoint("cohere", **KEY), 100, 1, 1),
    (Decisions("openai", **KEY), 100, 2, 1),
    (Decisions("systemone", **KEY), 100, 100, 1),
    (ByTable(), 100, 0, 0),
]


@pytest.mark.parametrize(("method", "count", "calls", "rounds"), FIGURES)
def test_calls_and_rounds(method, count, calls, rounds):
    reranker = Reranker(method)
    whole = reranker.plan(count).total
    assert (whole.calls, whole.rounds) == (calls, rounds)
    assert reranker.plan(0).total.calls == 0


@pytest.mark.parametrize("answered", [False, True])
def test_what_depends_on_answers_is_not_known(answered):
    class Own:
        """A method of a user's own; its questions may leave open what comes after them."""

        name, score_kind, scale = "own", "rank", None

        def judge(self, task):
            plan, result = Listwise(Model(prices=PRICES)).judge(task), None
            with suppress(StopIteration):
                while True:
                    effect = plan.send(result)
                    if isinstance(effect, Ask) and not answered:
                        questions = [replace(it, assumed=None) for it in effect.questions]
                        effect = replace(effect, questions=questions)
                    result = yield effect
            return Judgement([0.5] * len(task.texts))

    planned = Reranker(Own(), limits={"calls": 5}).plan(100)
    (stage,), whole = planned.stages, planned.total
    if answered:
        assert (whole.calls, whole.rounds, whole.pairs) == (9, 9, 180)
        assert [item.limit for item in planned.exceeded] == ["calls"]
        return
    assert {whole.calls, whole.rounds, whole.input_tokens, whole.cost} == {None}
    assert (planned.exceeded, stage.left_out, stage.problem) == ((), None, "")
    assert "? calls in ? rounds, about ? tokens in" in repr(planned)
    both = [{"method": Own()}, {"method": Graded(Model()), "depth": 5}]
    assert Reranker(Cascade(both)).plan(30).total.calls is None


@pytest.mark.parametrize(("kind", "reply"), [("listwise", ranked), ("graded", graded)])
def test_a_sample_is_estimated_as_a_dry_run_does(kind, reply):
    reranker = Reranker({"type": kind, "llm": Model(reply, prices=PRICES)})
    texts = [Candidate("kiwi " * number, str(number)) for number in range(1, 60)]
    planned = reranker.plan(texts, query="which fruit").total
    (expected,) = reranker.expected_use([("which fruit", texts)])
    assert (planned.calls, planned.pairs) == (expected.calls, expected.pairs)
    assert planned.input_tokens == pytest.approx(expected.input_tokens)
    assert planned.output_tokens == pytest.approx(expected.output_tokens)
    assert planned.cost == pytest.approx(expected.cost)


LIMITS = [
    # method, limits, exceeded, left out
    (Listwise, {}, [], 0),
    (Listwise, {"calls": 9}, [], 0),
    (Listwise, {"calls": 5}, ["calls"], 40),
    (Graded, {"tokens": 100}, ["tokens"], 100),
    (Graded, {"cost": 1e-9}, ["cost"], 100),
    (Graded, {"calls": 2, "tokens": 100}, ["calls", "tokens"], 100),
    (Pointwise, {"calls": 70}, ["calls"], 30),
]


@pytest.mark.parametrize(("kind", "limits", "names", "left_out"), LIMITS)
def test_limits_that_are_too_low_are_named_and_what_they_leave_out(kind, limits, names, left_out):
    reranker = Reranker(kind(Model(prices=PRICES, has_logprobs=True)), limits=limits)
    planned = reranker.plan(100)
    assert [item.limit for item in planned.exceeded] == names
    assert planned.stages[0].left_out == left_out
    for item in planned.exceeded:
        assert item.allowed == limits[item.limit] < item.needed
        assert any(note.startswith(f"limits.{item.limit} is ") for note in planned.notes)
    assert any("would leave out" in note for note in planned.notes) is (left_out > 0)


def test_stages_share_the_limits():
    model = Model(prices=PRICES)
    stages = [{"method": Graded(model)}, {"method": Listwise(model), "depth": 30}]
    planned = Reranker(Cascade(stages), limits={"calls": 6}).plan(100)
    assert [stage.calls for stage in planned.stages] == [5, 2]
    assert [stage.left_out for stage in planned.stages] == [0, 10]
    assert planned.exceeded == (ExceededLimit("calls", 6, 7),)


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
    assert (local.calls, local.rounds, local.pairs) == (0, 0, 30)
    assert local.input_tokens is local.cost is None
    assert Reranker(Graded(Model())).plan(30).total.cost is None
    model = Model(prices=PRICES)
    both = Cascade([{"method": Graded(model)}, {"method": Listwise(Model()), "depth": 5}])
    assert Reranker(both).plan(30).total.cost is None


@pytest.mark.parametrize(("count", "tokens"), [(50, 100), (13, 40_000), (5, 300_000)])
def test_batches_that_are_split_by_their_tokens_count(server, count, tokens):
    prices = {"input": 1, "output": 1}
    method = Endpoint("voyage", base_url=server.base_url("voyage"), prices=prices, **KEY)
    reranker, before = Reranker(method), server.calls
    planned = reranker.plan(count, tokens_per_passage=tokens).total
    ranking = reranker.rerank("abc " * 10, ["abc " * tokens] * count)
    reranker.close()
    assert planned.calls == ranking.report.usage.calls == server.calls - before
    assert (planned.calls == 1) == (count * tokens < 480_000)
    assert planned.rounds == 1
    assert planned.input_tokens == pytest.approx(count * (tokens + 10))
    assert planned.cost == pytest.approx(count * (tokens + 10) / 1e6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, {}), "candidates: give a number from 0"),
        ((True, {}), "candidates: give a number from 0"),
        ((10**9, {}), "candidates: give a number from 0"),
        ((1.5, {}), "candidates: give a sequence"),
        ((5, {"tokens_per_passage": 0}), "tokens_per_passage: give a whole number above 0, not 0"),
        ((5, {"tokens_per_passage": 1.5}), "tokens_per_passage: give a whole number"),
        ((5, {"depth": 0}), "depth: must be 1 or more"),
    ],
)
def test_wrong_arguments_are_input_errors(arguments, message):
    count, options = arguments
    with pytest.raises(InputError, match=message):
        Reranker(Graded(Model())).plan(count, **options)


def test_an_instruction_is_part_of_every_prompt():
    reranker = Reranker({"type": "graded", "llm": Model(graded), "batch_size": 10})
    plain, instructed = (
        reranker.plan(30, instruction=text).stages[0] for text in (None, "prefer " + "recent " * 40)
    )
    assert instructed.calls == plain.calls == 3
    assert instructed.input_tokens - plain.input_tokens >= 3 * 7 * 40 / 4
    with pytest.raises(InputError, match="instruction: give a string"):
        reranker.plan(30, instruction=5)
