"""The promises that interim rankings keep, and that they change nothing."""

import asyncio
import hashlib
import json
import random

from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable, Model, number_of, numbered
from sampling import examples
from secondpass import Candidate, Reranker
from secondpass.errors import LLMError
from secondpass.ranking.methods import to_method
from secondpass.strategies.blocks import Blocks
from secondpass.strategies.cascade import Cascade, CascadeStage
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise
from secondpass.types import TIMES


def moody(seed, faults):
    """An order that follows from what is shown alone; some replies are wrong, or none at all."""

    def reply(shown):
        texts = "|".join(shown.values())
        mood = random.Random(hashlib.sha256(f"{seed} {texts}".encode()).digest())
        if mood.random() < faults:
            return mood.choice([LLMError("the server failed", "server_error"), "no JSON", "{}"])
        labels = sorted(shown, key=lambda label: -number_of(shown[label]))
        if mood.random() < faults:
            labels = labels[: mood.randrange(len(labels) + 1)]
        return json.dumps({"ranking": labels})

    return reply


def graded_alike(seed, faults):
    honest = moody(seed, faults)

    def reply(shown):
        text = honest(shown)
        if not isinstance(text, str) or "ranking" not in text:
            return text
        return json.dumps({label: number_of(shown[label]) for label in json.loads(text)["ranking"]})

    return reply


seeds = st.integers(0, 1000)
faults = st.sampled_from([0.0, 0.1, 0.3, 1.0])
models = st.builds(lambda *mood: Model(moody(*mood)), seeds, faults)
strategies = st.one_of(
    st.builds(lambda llm: Listwise(llm, window=3, stride=1), models),
    st.builds(lambda llm: Blocks(llm, block=3, final=3), models),
    st.builds(lambda llm: Listwise(llm, window=3, stride=1, shuffles=2), models),
    st.builds(lambda *mood: Graded(Model(graded_alike(*mood)), batch_size=2), seeds, faults),
    st.builds(lambda: to_method(ByTable())),
)
cascades = st.builds(
    lambda methods, depth: Cascade(
        [CascadeStage(method, depth - place) for place, method in enumerate(methods)]
    ),
    st.lists(strategies, min_size=2, max_size=3),
    st.integers(4, 12),
)


def reranker_of(method, floor, **settings):
    if getattr(method, "score_kind", None) == "rank":
        floor = None
    limits = {"retries": 0, "repair": 0}
    return Reranker(method, floor=floor, limits=limits, log_level="debug", **settings)


ORDERS = [None, "lost_in_the_middle", {"type": "tiers", "field": "a", "tiers": ["x"]}]
rerankers = st.builds(
    reranker_of,
    strategies | cascades,
    st.sampled_from([None, 0.4]),
    fallback=st.lists(strategies, max_size=1),
    blend=st.sampled_from([None, {"original": 0.5, "normalize": "minmax"}]),
    terms=st.sampled_from(
        [(), [{"type": "value", "field": "a", "values": {"x": 0.4}, "weight": 0.3}]]
    ),
    passages=st.sampled_from([None, {"size": 5}]),
    depth=st.sampled_from([None, 7]),
    order=st.sampled_from(ORDERS),
    tail=st.sampled_from(["keep", "drop"]),
    dedupe=st.booleans(),
    top_k=st.sampled_from([None, 3]),
)
lists = st.lists(
    st.builds(
        Candidate,
        st.sampled_from([*numbered(range(9)), None]),
        st.sampled_from([None, None, None, "a", "b"]),
        st.one_of(st.none(), st.floats(0, 1)),
        st.fixed_dictionaries({"a": st.sampled_from("xy")}),
    ),
    min_size=3,
    max_size=9,
)


def plain(ranking):
    """All that a ranking says, without its times."""
    record = ranking.to_dict(text=True)
    for name in TIMES:
        del record["report"][name]
    return repr(record)


async def streamed(reranker, candidates):
    return [ranking async for ranking in reranker.astream("query", candidates)]


@examples(30)
@given(rerankers, lists)
def test_interim_rankings_are_permutations_and_the_last_is_that_of_arerank(reranker, candidates):
    rankings = asyncio.run(streamed(reranker, candidates))
    for ranking in rankings:
        left_out = [index for some in ranking.report.left_out.values() for index in some]
        assert sorted([*ranking.order, *left_out]) == list(range(len(candidates)))
        assert [item.rank for item in ranking] == list(range(1, len(ranking) + 1))
        for item in ranking:
            assert (item.status == "scored") == (item.rerank_score is not None)
            assert item.candidate is candidates[item.position]
            assert item.span is None or 0 <= item.span[0] < item.span[1] <= len(item.text)
            ranking.explain(position=item.position)
        if reranker.order is None and ranking.report.status != "unchanged":
            final = [item.final_score for item in ranking if item.status == "scored"]
            assert final == sorted(final, reverse=True)
    for ranking in rankings[:-1]:
        assert not ranking.report.final
        assert any(score is not None for score in ranking.trace.rerank_score)
    assert rankings[-1].report.final
    assert plain(rankings[-1]) == plain(asyncio.run(reranker.arerank("query", candidates)))


@examples(20)
@given(rerankers, lists)
def test_the_callback_gets_the_rankings_of_the_stream_and_changes_nothing(reranker, candidates):
    shown = []
    last = reranker.rerank("query", candidates, on_interim=shown.append)
    rankings = asyncio.run(streamed(reranker, candidates))
    assert [plain(ranking) for ranking in [*shown, last]] == [plain(one) for one in rankings]
    assert plain(last) == plain(reranker.rerank("query", candidates))
