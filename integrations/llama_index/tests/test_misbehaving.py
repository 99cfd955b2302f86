"""What a language model may do wrong costs no node, and the report says what it was.

The table stands in ``tests/support/misbehaving_replies.py``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.utils import parse_partial_json
from llama_index.core.schema import NodeWithScore, TextNode

import misbehaving_replies as replies
from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import plain
from misbehaving_replies import (
    CASES,
    GRADED,
    LISTWISE,
    MARKER,
    OURS,
    QUERY,
    Asked,
    Calling,
    Case,
    Chatting,
    Completing,
    Form,
    Said,
)
from patience import patiently
from sampling import rotating
from secondpass import Report, RerankError

LLMS: tuple[type[Any], ...] = (Completing, Chatting, Calling)
WAYS = [(form, llm) for form in OURS for llm in LLMS]


def played() -> Iterator[Any]:
    """Every case in every way; `make test` has each case in one of them, in turn."""
    for number, case in enumerate((replies.HONEST, *CASES)):
        ways = [way for way in WAYS if case.promised(way[0])[0]]
        for index, (form, llm) in enumerate(ways):
            marks = () if index == number % len(ways) else (pytest.mark.long,)
            name = f"{case.name}, {form.name}, {llm.__name__.lower()}"
            yield pytest.param(case, form, llm, id=name, marks=marks)


@pytest.fixture(autouse=True)
def threads_that_wait() -> Iterator[None]:
    yield
    replies.release()


def reranking(form: Form, llm: Any, case: Case | None = None, **more: Any) -> SecondPassRerank:
    method: dict[str, Any] = {"type": form.name}
    if case is not None and case.batch_size is not None:
        method["batch_size"] = case.batch_size
    limits = {} if case is None else dict(case.limits)
    if case is not None and case.promised(form)[0] == "unchanged":
        limits["repair"] = 0  # the scripts are about all passages, not about halves of them
    return SecondPassRerank({"method": method, "limits": limits, **more}, llm=llm)


def both_ways(
    *makes: Callable[[], SecondPassRerank], before: Callable[[], None] = lambda: None
) -> tuple[list[NodeWithScore], Report]:
    """What comes out, which is the same whether a caller waits or awaits.

    Several functions make the same with longer and longer deadlines: a busy machine may not keep up
    with the first. ``before`` is called before each.
    """
    for make in makes:
        before()
        given = replies.nodes()
        ranked, report = make().rerank_nodes(given, QUERY)
        again, other = asyncio.run(make().arerank_nodes(given, QUERY))
        if plain(again) == plain(ranked) and outcome_of(other) == outcome_of(report):
            break
    assert plain(again) == plain(ranked)
    assert outcome_of(other) == outcome_of(report)
    assert plain(given) == plain(replies.nodes()), "the input was changed"
    check_nothing_is_lost(given, ranked)
    return ranked, report


def outcome_of(report: Report) -> tuple[Any, ...]:
    return report.status, [(issue.code, issue.message, issue.positions) for issue in report.issues]


def numbers(nodes: Sequence[NodeWithScore], status: str | None = None) -> list[int]:
    return [
        node.metadata["number"]
        for node in nodes
        if status is None or node.metadata["rerank_status"] == status
    ]


def check_nothing_is_lost(
    sources: Sequence[NodeWithScore], ranked: Sequence[NodeWithScore]
) -> None:
    """Each node that went in comes out once, with what belongs to it, and scores fall."""
    sources = {one.metadata["number"]: one for one in sources}
    assert sorted(numbers(ranked)) == sorted(sources)
    for one in ranked:
        source = sources[one.metadata["number"]]
        assert (one.node_id, one.text) == (source.node_id, source.text)
        assert source.metadata.items() <= one.metadata.items()
        assert one.metadata["retrieval_score"] == source.score
    scores = [one.score for one in ranked]
    assert all(type(score) is float and math.isfinite(score) for score in scores)
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(("case", "form", "llm"), list(played()))
def test_no_node_is_lost_and_the_report_says_what_happened(
    case: Case, form: Form, llm: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "secondpass")
    ranked, report = both_ways(
        *(
            lambda attempt=attempt: reranking(form, llm(script=case.say, form=form), attempt)
            for attempt in patiently(case)
        ),
        before=caplog.clear,
    )
    status, code = case.promised(form, by_tool=llm is Calling)
    codes = [issue.code for issue in report.issues]
    assert report.status == status
    assert code in codes if code else status == "ok" or codes
    assert (status == "ok") == (numbers(ranked, "scored") == numbers(ranked))

    if status == "unchanged":
        assert numbers(ranked) == list(replies.NUMBERS)
        assert set(numbers(ranked, "unjudged")) == set(replies.NUMBERS)
    else:
        scored = numbers(ranked, "scored")
        stated = [number for number in case.meant if number in scored]
        assert [number for number in scored if number in case.meant] == stated
        if form is GRADED and not case.by_tool:
            graded = {one.metadata["number"]: one.metadata["rerank_score"] for one in ranked}
            assert {number: graded[number] for number in stated} == {
                number: case.meant[number] for number in stated
            }

    # One for the synchronous ranking, one for the other; none for errors that were recovered from.
    recovered = status == "ok" and set(codes) <= {"asked_again", "batch_failed"}
    assert len(caplog.records) == (2 if codes and not recovered else 0)
    for said in (caplog.text, repr(report)):
        assert MARKER not in said
        assert "sk-secret" not in said


def test_the_table_says_something_of_each_kind() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for form in OURS:
        assert {case.promised(form)[0] for case in CASES} >= {"ok", "partial", "unchanged"}


@pytest.mark.parametrize("form", OURS, ids=lambda form: form.name)
@pytest.mark.parametrize("llm", LLMS)
def test_strict_raises_with_the_ranking(form: Form, llm: type[Any]) -> None:
    def refused(_asked: Asked) -> Said:
        return Said(before="I can't say.")

    reranker = reranking(form, llm(script=refused, form=form), strict=True)
    with pytest.raises(RerankError) as caught:
        reranker.postprocess_nodes(replies.nodes(), query_str=QUERY)
    assert caught.value.ranking.report.status == "unchanged"
    with pytest.raises(RerankError):
        asyncio.run(reranker.apostprocess_nodes(replies.nodes(), query_str=QUERY))


@pytest.mark.parametrize("form", OURS, ids=lambda form: form.name)
@pytest.mark.parametrize("llm", LLMS)
def test_a_better_second_answer_is_taken(form: Form, llm: type[Any]) -> None:
    def make() -> SecondPassRerank:
        asked: list[str] = []

        def second(of: Asked) -> Said:
            asked.append(of.sent)
            return Said(before="Well, number 4!") if len(asked) == 1 else Said(of.honest)

        return reranking(form, llm(script=second, form=form))

    ranked, report = both_ways(make)
    assert numbers(ranked) == list(replies.ALL)
    assert (report.status, report.usage.calls) == ("ok", 2)
    assert [issue.code for issue in report.issues] == ["asked_again"]


def test_other_batches_are_kept_when_one_never_answers() -> None:
    def script(asked: Asked) -> object:
        return replies.NEVER if "grade 9:" in asked.sent else Said(asked.honest)

    for llm in (Completing, Chatting):
        for deadline in (0.3, 3.0, 30.0):
            config = {
                "method": {"type": "graded", "batch_size": 1},
                "limits": {"deadline": deadline},
            }

            def make(config=config, llm=llm):
                return SecondPassRerank(config, llm=llm(script=script, form=GRADED))

            ranked, report = both_ways(make)
            if report.issues[0].positions == (1,):  # the machine kept up
                break
        assert numbers(ranked) == [7, 5, 3, 1, 9]
        assert report.status == "partial"
        assert report.issues[0].code == "deadline"
        assert report.issues[0].positions == (1,)


# ---------------------------------------------------------------------- tools


def honest(asked: Asked) -> Said:
    return Said(asked.honest)


@pytest.mark.parametrize("form", OURS, ids=lambda form: form.name)
@pytest.mark.parametrize(
    "settings_of_it",
    [
        {},
        {"calls": 2},
        {"name": "another_tool"},
        {"name": ""},
    ],
    ids=["one call", "two alike", "another name", "no name"],
)
def test_an_answer_by_tool_is_read(form: Form, settings_of_it: dict[str, Any]) -> None:
    ranked, report = both_ways(
        lambda: reranking(form, Calling(script=honest, form=form, **settings_of_it))
    )
    assert numbers(ranked) == list(replies.ALL)
    assert (report.status, report.issues) == ("ok", ())


class Contradicting(Calling):
    """Calls the tool twice, with answers that differ."""

    def get_tool_calls_from_response(self, *args: Any, **kwargs: Any) -> list[ToolSelection]:
        results = super().get_tool_calls_from_response(*args, **kwargs)
        other = dict(results[0].tool_kwargs)
        if "ranking" in other:
            other["ranking"] = other["ranking"][::-1]
        else:
            other = dict.fromkeys(other, 4)
        return [*results, results[0].model_copy(update={"tool_kwargs": other})]


class Garbling(Calling):
    """Calls the tool with something that cannot be read."""

    arguments: Any

    def get_tool_calls_from_response(self, *args: Any, **kwargs: Any) -> list[ToolSelection]:
        if isinstance(self.arguments, Exception):
            raise type(self.arguments)(*self.arguments.args)
        results = super().get_tool_calls_from_response(*args, **kwargs)
        return [one.model_copy(update={"tool_kwargs": self.arguments}) for one in results]


GARBAGE = [
    {"x": 1},
    {"": None},
    {"ranking": "all of them"},
    {"ranking": [[]]},
    {"ranking": None, "grades": None},
    {"answer": {"answer": {}}},
    {"input": {1, 2}},
    {"when": object()},
    ["no", "mapping"],
    "text",
    7,
    ValueError("Expected at least one tool call, but got 0 tool calls."),
    KeyError("tool_calls"),
    NotImplementedError(),
]


@rotating(arguments=GARBAGE, form=OURS)
def test_arguments_that_are_garbage_are_refused(form: Form, arguments: Any) -> None:
    ranked, report = both_ways(
        lambda: reranking(form, Garbling(script=honest, form=form, arguments=arguments))
    )
    assert report.status == "unchanged"
    assert numbers(ranked) == list(replies.NUMBERS)
    known = {"reply_refused", "empty_reply", "llm_raised"}
    assert {issue.code for issue in report.issues} - {"asked_again"} <= known


@pytest.mark.parametrize("form", OURS, ids=lambda form: form.name)
def test_two_calls_that_differ_are_refused(form: Form) -> None:
    ranked, report = both_ways(lambda: reranking(form, Contradicting(script=honest, form=form)))
    assert report.status == "unchanged"
    assert numbers(ranked) == list(replies.NUMBERS)
    assert report.issues[-1].code == "reply_refused"


@pytest.mark.parametrize("form", OURS, ids=lambda form: form.name)
def test_an_answer_in_words_counts_where_no_tool_was_called(form: Form) -> None:
    def in_words(asked: Asked) -> Said:
        return Said(before=f"Here:\n```json\n{asked.form.written(asked.honest)}\n```")

    ranked, report = both_ways(lambda: reranking(form, Calling(script=in_words, form=form)))
    assert numbers(ranked) == list(replies.ALL)
    assert report.status == "ok"


class Breaking(Calling):
    """Runs out of tokens within a tool call, and completes what there is, as LLMs of LlamaIndex do.

    Args:
        at: how much of the arguments there is, in characters from their end.
    """

    at: int

    def _response(self, reply: Said, kwargs: Any) -> ChatResponse:
        arguments = json.dumps(self.form.arguments(reply.pairs or ()))
        begun = parse_partial_json(arguments[: -self.at])
        response = super()._response(Said(reply.pairs, cut=True), kwargs)
        for block in response.message.blocks:
            if block.block_type == "tool_call":
                block.tool_kwargs = begun
        return response


def test_last_grade_of_a_truncated_call_is_dropped() -> None:
    # Ten for the last of them, of which only the 1 has come.
    def ten(asked: Asked) -> Said:
        pairs = [(label, 10 - grade) for label, grade in asked.honest]
        return Said([*pairs[:-1], (pairs[-1][0], 10)])

    ranked, report = both_ways(lambda: reranking(GRADED, Breaking(script=ten, form=GRADED, at=2)))
    assert numbers(ranked, "scored") == [3, 5, 7, 9]
    assert report.status == "partial"


class UnsupportedError(Exception):
    """As SDKs raise it for a model that has no tools."""

    def __init__(self, message: str, status_code: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status_code = status_code
        self.body = {"error": {"message": message}}


NO_TOOLS = [
    TypeError("chat() got an unexpected keyword argument 'tools'"),
    NotImplementedError(),
    AttributeError("tools"),
    UnsupportedError("tools are not supported by this model"),
    UnsupportedError("`tool_choice` must be auto", 422),
]


@rotating(refuses=NO_TOOLS, form=OURS)
def test_refused_tools_are_not_sent_again(form: Form, refuses: Exception) -> None:
    created: list[Calling] = []

    def make() -> SecondPassRerank:
        created.append(Calling(script=honest, form=form, refuses=refuses))
        return reranking(form, created[-1])

    ranked, report = both_ways(make)
    assert numbers(ranked) == list(replies.ALL)
    assert report.status == "ok"
    assert [issue.code for issue in report.issues] == ["asked_again"]
    for llm in created:
        assert llm.tools == [1, 0]

    reranker = reranking(form, llm := Calling(script=honest, form=form, refuses=refuses))
    for _ in range(3):
        assert numbers(reranker.postprocess_nodes(replies.nodes(), query_str=QUERY)) == list(
            replies.ALL
        )
    assert llm.tools == [1, 0, 0, 0]


def test_batches_side_by_side_step_down_together() -> None:
    llm = Calling(script=honest, form=GRADED, refuses=NotImplementedError())
    config = {"method": {"type": "graded", "batch_size": 1}}
    reranker = SecondPassRerank(config, llm=llm)
    ranked, report = asyncio.run(reranker.arerank_nodes(replies.nodes(), QUERY))
    assert numbers(ranked) == list(replies.ALL)
    assert report.status == "ok"
    with_tools = [tools for tools in llm.tools if tools]
    assert llm.tools[len(with_tools) :] == [0] * 5
    assert report.usage.calls == len(llm.tools)


@pytest.mark.parametrize(
    ("refuses", "code"),
    [
        (RuntimeError("the server is on fire"), "llm_raised"),
        (UnsupportedError("invalid key", 401), "authentication"),
        (UnsupportedError("no such model", 404), "not_found"),
    ],
    ids=repr,
)
def test_other_errors_do_not_give_up_tools(refuses: Exception, code: str) -> None:
    for asynchronous in (False, True):
        llm = Calling(script=honest, form=LISTWISE, refuses=refuses)
        reranker = reranking(LISTWISE, llm)
        if asynchronous:
            nodes, report = asyncio.run(reranker.arerank_nodes(replies.nodes(), QUERY))
        else:
            nodes, report = reranker.rerank_nodes(replies.nodes(), QUERY)
        check_nothing_is_lost(replies.nodes(), nodes)
        assert (report.status, report.issues[0].code) == ("unchanged", code)
        assert 0 not in llm.tools


# ---------------------------------------------------------------------- generated replies

# Under the profile `long` ten thousand.
BULK = 10_000 if settings().max_examples > 1000 else settings().max_examples
NAMES = ("LABEL0", "LABEL1", "LABEL2", "LABEL3", "LABEL4")
"""Stand for the labels that the model is shown."""

numbers_of_grades = st.one_of(
    st.integers(0, 10),
    st.floats(0, 10),
    st.floats(),
    st.integers(-100, 100),
    st.booleans(),
    st.none(),
    st.sampled_from(["high", "7", "9/10", "0.5", "", [3], {"score": 3}, 10**400]),
)
labels_of_them = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from([0, 1, 5, -7, 99, "0", "1", "", "Document 1", "label0"]),
    st.text(max_size=3),
)
answers = st.lists(st.tuples(labels_of_them, numbers_of_grades), max_size=8)
orders = st.permutations(NAMES).map(list) | st.lists(labels_of_them, max_size=8)
well_formed = st.one_of(
    st.dictionaries(labels_of_them.map(str), numbers_of_grades, max_size=7),
    st.lists(st.integers(0, 10), min_size=5, max_size=5).map(
        lambda values: dict(zip(NAMES, values, strict=True))
    ),
    answers.map(lambda pairs: [{"id": label, "score": grade} for label, grade in pairs]),
    answers.map(lambda pairs: {"grades": {str(label): grade for label, grade in pairs}}),
    orders,
    orders.map(lambda order: {"ranking": order}),
    orders.map(lambda order: {"order": order, "note": "5 of 5"}),
).map(json.dumps)
random_json = st.recursive(
    numbers_of_grades | labels_of_them,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(labels_of_them.map(str), inner, max_size=4)
        | st.dictionaries(st.sampled_from(["ranking", "grades", "id", "score"]), inner, max_size=3)
    ),
    max_leaves=6,
).map(json.dumps)
lines = st.lists(
    st.one_of(
        st.builds("Doc: {}, Relevance: {}".format, labels_of_them, numbers_of_grades),
        st.builds("[{}] > [{}]".format, labels_of_them, labels_of_them),
        st.builds("* {}: {}".format, labels_of_them, numbers_of_grades),
        st.builds("{}. {} ({}/10)".format, st.integers(0, 6), labels_of_them, numbers_of_grades),
    ),
    max_size=7,
).map("\n".join)
prose = st.sampled_from(
    ["", "Sure! ", "Of the 5, 2 are good: ", "<think>", "</think>", "```json\n", "\n```", "[1] "]
)


@st.composite
def mutated(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text with a piece cut out, doubled, or something put in."""
    text = draw(texts)
    begin = draw(st.integers(0, len(text)))
    end = draw(st.integers(begin, len(text)))
    put = draw(st.sampled_from(["", text[begin:end] * 2, ",", "}", "]", '"', "NaN", "{", "\x00"]))
    return text[:begin] + put + text[end:]


any_text = st.one_of(
    well_formed,
    mutated(well_formed),
    st.tuples(prose, well_formed, prose).map("".join),
    st.tuples(well_formed, well_formed).map("\n".join),
    lines,
    random_json,
    st.text(max_size=40),
)


class Saying(Chatting):
    """Says a text, with the labels that it was shown in the place of the names."""

    cut: bool = False

    def _said(self, messages: Sequence[ChatMessage], kwargs: Any) -> Said:
        sent = "\n".join(message.content or "" for message in messages)
        text = self.script
        for name, label in zip(NAMES, Asked(self.form, sent).shown, strict=False):
            text = text.replace(name, label)
        return Said(before=text, cut=self.cut)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    # One loop for all examples; to make one for each would take most of the time.
    with asyncio.Runner() as runner:
        yield runner


CONFIGURATIONS: list[dict[str, Any]] = [
    {"type": "graded"},
    {"type": "graded", "batch_size": 2},
    {"type": "graded", "reply": "pairs", "labels": "index1"},
    {"type": "listwise"},
    {"type": "listwise", "window": 3, "stride": 2},
    {"type": "listwise", "labels": "id"},
]


@settings(max_examples=BULK)
@given(st.integers(0, len(CONFIGURATIONS) - 1), any_text, st.integers(1, 5), st.booleans())
def test_property_no_reply_loses_or_doubles_a_node(
    loop: asyncio.Runner, which: int, text: str, count: int, cut: bool
) -> None:
    nodes = [
        NodeWithScore(
            node=TextNode(
                text=f"passage {index % 4}", id_=f"n{index % 3}", metadata={"number": index}
            ),
            score=0.9 - index / 10,
        )
        for index in range(count)
    ]
    before = plain(nodes)
    form = GRADED if CONFIGURATIONS[which]["type"] == "graded" else LISTWISE
    reranker = SecondPassRerank(
        {"method": CONFIGURATIONS[which], "limits": {"repair": 0}, "log_level": "debug"},
        llm=Saying(script=text, form=form, cut=cut),
    )
    ranked, report = reranker.rerank_nodes(nodes, QUERY)
    again, other = loop.run(reranker.arerank_nodes(nodes, QUERY))

    assert plain(nodes) == before
    assert plain(again) == plain(ranked)
    assert outcome_of(other) == outcome_of(report)
    check_nothing_is_lost(nodes, ranked)
    unscored = {one.metadata["number"] for one in ranked} - set(numbers(ranked, "scored"))
    if count == 1 and form is LISTWISE:  # there is nothing to order, so nothing is asked
        assert (report.status, numbers(ranked, "tail"), report.usage.calls) == ("ok", [0], 0)
    elif report.status == "unchanged":
        assert report.issues
        assert numbers(ranked) == list(range(count))
    elif numbers(ranked, "tail"):  # a single node, left alone
        assert (count, report.status, report.issues) == (1, "ok", ())
    else:
        assert report.status == ("partial" if unscored else "ok")
        assert unscored <= {index for issue in report.issues for index in issue.positions}
