"""Tournament: its stages, the order of the paper's pseudocode, and what counts without answers."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Model, failing, in_answer, number_of, numbered, play, ranked, shown_in, task_of
from sampling import examples
from secondpass import Reranker
from secondpass.effects import Answer, Completion
from secondpass.errors import LLMError, MethodError, ReplyError
from secondpass.prompts.replies.values import Order
from secondpass.strategies.tournament import Selection, Tournament, deal, schedule


def judge(method, texts, reply=ranked):
    return play(method.judge(task_of(texts)), in_answer(reply))


def order_of(judgement):
    """The indices that have a score, best first."""
    scored = [index for index, score in enumerate(judgement.scores) if score is not None]
    return sorted(scored, key=lambda index: -judgement.scores[index])


# ---------------------------------------------------------------------- stages


@pytest.mark.parametrize(
    ("count", "stages"),
    [
        (2, [(1, 1)]),
        (3, [(1, 1)]),
        (5, [(1, 2)]),
        (20, [(1, 10), (1, 5), (1, 2)]),
        (21, [(2, 10), (1, 5), (1, 2)]),
        (60, [(3, 30), (3, 15), (1, 7), (1, 3), (1, 1)]),
        (99, [(5, 49), (5, 20), (1, 10), (1, 5), (1, 2)]),
        (100, [(5, 50), (5, 20), (1, 10), (1, 5), (1, 2)]),  # the paper's
        (200, [(10, 100), (10, 50), (5, 20), (1, 10), (1, 5), (1, 2)]),
    ],
)
def test_schedule(count, stages):
    assert schedule(count, 20) == stages


@given(st.integers(2, 200), st.integers(3, 25))
def test_every_stage_is_a_selection(count, size):
    left = list(range(count))
    for groups, kept in schedule(count, size):
        dealt = deal(left, groups, kept, "seed")
        assert sorted(index for group in dealt for index in group.shown) == left
        assert sum(group.places for group in dealt) == kept <= len(left) / 2
        sizes = [len(group.shown) for group in dealt]
        assert max(sizes) <= size
        assert max(sizes) - min(sizes) <= 1
        assert all(0 < group.places < len(group.shown) for group in dealt)
        left = left[:kept]
    assert 1 <= len(left) <= 2


def test_groups_have_candidates_of_all_parts_of_the_order():
    groups = deal(range(100), 5, 50, "seed")
    assert [sorted(group.shown) for group in groups] == [[*range(at, 100, 5)] for at in range(5)]
    assert all(group.shown != sorted(group.shown) for group in groups)


# ---------------------------------------------------------------------- the paper's order


def transcribed(count, tournaments, select):
    """TourRank-r for 100 documents, after the authors' code; ``select`` chooses of a set."""
    total = Counter()
    for tournament in range(tournaments):
        points = Counter()
        ranked_list = list(range(count))
        for entrants, groups, size, winners in [
            (100, 5, 20, 10),
            (50, 5, 10, 4),
            (20, 1, 20, 10),
            (10, 1, 10, 5),
            (5, 1, 5, 2),
        ]:
            stage = ranked_list[:entrants]
            for place in range(groups):
                group = [stage[step * groups + place] for step in range(size)]
                for document in select(tournament, frozenset(group), winners):
                    points[document] += 1
            ranked_list = sorted(range(count), key=lambda document: -points[document])
        total += points
    return sorted(range(count), key=lambda document: -total[document])


@examples(20)
@given(st.integers(1, 3), st.integers(0, 10**6))
def test_order_is_that_of_the_pseudocode(tournaments, seed):
    """The judge is noisy, and each tournament gets other answers about the same group."""
    noise = random.Random(seed)
    numbers = noise.sample(range(100), 100)
    asked = iter(range(1000))
    answers = {}

    def select(tournament, group, winners):
        seen = answers.get((tournament, group)) or answers[None, group]
        return sorted(group, key=lambda index: -seen[index])[:winners]

    def reply(passages):
        shown = {label: numbers.index(number_of(text)) for label, text in passages.items()}
        # In the first stage, all tournaments have the same groups, one tournament after the other.
        number = next(asked)
        key = number // 5 if number < 5 * tournaments else None, frozenset(shown.values())
        noisy = {index: numbers[index] + noise.gauss(0, 30) for index in shown.values()}
        seen = answers.setdefault(key, noisy)
        return json.dumps({"ranking": sorted(shown, key=lambda label: -seen[shown[label]])})

    judgement, asks = judge(Tournament(Model(), tournaments=tournaments), numbered(numbers), reply)
    assert order_of(judgement) == transcribed(100, tournaments, select)
    assert [len(ask.questions) / tournaments for ask in asks] == [5, 5, 1, 1, 1]
    assert not judgement.issues
    assert not judgement.degraded


@examples(20)
@given(st.permutations(range(40)))
def test_an_exact_judge_puts_the_best_first(numbers):
    judgement, _ = judge(Tournament(Model(), group=10), numbered(numbers))
    found = [numbers[index] for index in order_of(judgement)]
    assert 39 in found[:2]
    assert sorted(found) == list(range(40))


def test_equal_points_keep_the_order():
    judgement, _ = judge(Tournament(Model()), numbered([1, 5, 2, 4, 3]))
    assert order_of(judgement) == [1, 3, 0, 2, 4]


def test_prompts_depend_on_seed_and_tournament_alone():
    def shown(**settings):
        method = Tournament(Model(), labels="index1", **settings)
        _, asks = judge(method, numbered(range(30)))
        return [question.request.turns[0].text for ask in asks for question in ask.questions]

    assert shown() == shown()
    assert shown(seed=1) != shown()
    two = shown(tournaments=2)
    assert two[:2] == shown()[:2]
    assert two[2:4] != two[:2]


# ---------------------------------------------------------------------- the selection


def test_request_and_schema():
    asked = Selection(10)
    assert asked.request() == (
        'Reply with ONLY one JSON object of this form, best first: {"ranking": ["<id>", "<id>", '
        "...]}. It has to have exactly 10 of the documents, each id once."
    )
    array = asked.schema(["a", "b"])["properties"]["ranking"]
    assert (array["minItems"], array["maxItems"]) == (10, 10)
    assert asked.expected_tokens(20) < asked.expected_tokens(20) * 2
    assert asked.expected_tokens(20) == Selection(10).expected_tokens(10)
    bare = Selection(3, "index1", bare=True)
    assert bare.schema(["1", "2"]) is None
    assert bare.request() == (
        "Reply with ONLY a JSON array of this form, best first: [<index>, <index>, ...]. It has to "
        "have exactly 3 of the documents, each index once. Indices count from 1."
    )


@pytest.mark.parametrize(
    ("reply", "places"),
    [
        ('{"ranking": ["b", "a"]}', (1, 0)),
        ('{"ranking": ["c", "b", "a", "d"]}', (2, 1)),  # all of them, best first
        ('{"ranking": ["d"]}', (3,)),
    ],
)
def test_the_first_of_a_reply_are_selected(reply, places):
    asked = Selection(2, "id")
    labels = asked.label("q", ["t"] * 4, task_of(["t"] * 4).candidates)
    names = dict(zip("abcd", labels.names, strict=True))
    for letter, name in names.items():
        reply = reply.replace(f'"{letter}"', f'"{name}"')
    assert asked.read(Completion(reply), labels).places == places


def test_prose_is_no_selection():
    asked = Selection(2)
    labels = asked.label("q", ["t"] * 4, task_of(["t"] * 4).candidates)
    with pytest.raises(ReplyError):
        asked.read(Completion(f"I would take {labels.names[0]}"), labels)


# ---------------------------------------------------------------------- questions without an answer


def test_no_answer_at_all_fails():
    with pytest.raises(MethodError, match="down"):
        judge(Tournament(Model()), numbered(range(100)), failing(*range(5)))


def test_first_of_a_failed_group_advance_without_a_point():
    numbers = range(100, 0, -1)  # the retriever is right
    judgement, asks = judge(Tournament(Model()), numbered(numbers), failing(0))
    assert judgement.degraded
    # Ten of the group have been judged in the second stage, and the others never.
    assert judgement.unjudged == set(range(50, 100, 5))
    assert order_of(judgement)[:5] == [0, 1, 2, 3, 4]
    assert [(issue.code, issue.positions) for issue in judgement.issues] == [
        ("server_error", tuple(range(0, 100, 5)))
    ]
    assert [len(ask.questions) for ask in asks] == [5, 5, 1, 1, 1]


def test_other_tournaments_stand_in_for_a_failed_group():
    judgement, _ = judge(
        Tournament(Model(), tournaments=2), numbered(range(100, 0, -1)), failing(0)
    )
    assert order_of(judgement)[:5] == [0, 1, 2, 3, 4]
    assert not judgement.unjudged
    assert judgement.degraded


@pytest.mark.parametrize(("failed", "rounds"), [((10,), 4), ((5, 6, 7, 8, 9), 2), ((12,), 5)])
def test_points_so_far_stand_without_later_answers(failed, rounds):
    judgement, asks = judge(
        Tournament(Model()), numbered(range(100)), failing(*failed, *range(max(failed), 20))
    )
    # Nothing more is asked once no group was answered.
    assert [len(ask.questions) for ask in asks] == [5, 5, 1, 1, 1][: len(asks)]
    assert len(asks) <= rounds
    assert judgement.degraded
    assert not judgement.unjudged
    assert sorted(order_of(judgement)[:50]) == list(range(50, 100))
    assert [issue.code for issue in judgement.issues] == ["server_error"]


def test_a_short_selection_is_filled_by_the_original_order():
    def reply(passages):
        labels = sorted(passages, key=lambda label: -number_of(passages[label]))
        return json.dumps({"ranking": labels[:1]})

    judgement, _ = judge(Tournament(Model()), numbered(range(10)), reply)
    assert order_of(judgement)[0] == 9
    assert judgement.degraded
    assert [(issue.code, issue.positions) for issue in judgement.issues] == [
        ("not_in_reply", (0, 1, 2, 3))
    ]


@pytest.mark.parametrize(
    ("calls", "number", "codes"), [(26, 2, []), (25, 1, ["fewer_runs"]), (13, 1, ["fewer_runs"])]
)
def test_limits_allow_fewer_tournaments(calls, number, codes):
    model = Model(ranked)
    reranker = Reranker(Tournament(model, tournaments=2), limits={"calls": calls})
    report = reranker.rerank("wombats", numbered(range(100))).report
    assert report.usage.calls == len(model.prompts) == 13 * number
    assert report.usage.rounds == 5
    assert [issue.code for issue in report.issues] == codes
    assert report.status == "ok"


@examples(20)
@given(st.integers(2, 60), st.integers(3, 9), st.integers(1, 3), st.integers(0, 10**6))
def test_nothing_wrong_is_made_of_any_reply(count, group, tournaments, seed):
    draw = random.Random(seed)

    def reply(passages):
        labels = list(passages)
        draw.shuffle(labels)
        kind = draw.randrange(5)
        if kind == 0:
            return LLMError("the server is down", "server_error")
        keep = draw.randrange(len(labels) + 1) if kind == 1 else None
        return json.dumps({"ranking": labels[:keep]})

    method = Tournament(Model(), group=group, tournaments=tournaments)
    try:
        judgement, asks = judge(method, numbered(range(count)), reply)
    except MethodError:
        return
    scored = order_of(judgement)
    assert len({judgement.scores[index] for index in scored}) == len(scored)
    assert judgement.unjudged == set(range(count)) - set(scored)
    assert len(asks) <= len(schedule(count, group))
    assert judgement.degraded or not judgement.issues


def test_assumed_answers_are_selections():
    _, asks = play(
        Tournament(Model()).judge(task_of(numbered(range(100)))),
        lambda question: Answer(question.assumed),
    )
    assert [ask.questions[0].assumed for ask in asks] == [
        Order(tuple(range(places)), 0, 0) for places in (10, 4, 10, 5, 2)
    ]


def test_both_ways_agree(rank):
    numbers = random.Random(5).sample(range(100), 60)
    reranker = Reranker({"type": "tournament", "llm": lambda m: ranked(shown_in(m))}, depth=None)
    ranking = rank(reranker, "wombats", numbered(numbers))
    assert {numbers[at] for at in ranking.order[:3]} == {*sorted(numbers)[-3:]}
    assert (ranking.report.status, ranking.report.score_kind) == ("ok", "rank")
    usage = ranking.report.usage
    assert (usage.calls, usage.rounds, usage.pairs) == (9, 5, 60 + 30 + 15 + 7 + 3)


def test_single_candidate_is_left_alone():
    ranking = Reranker({"type": "tournament", "llm": lambda m: "never asked"}).rerank("q", ["one"])
    assert (ranking.report.status, ranking.report.usage.calls) == ("ok", 0)
    assert ranking[0].status == "tail"
