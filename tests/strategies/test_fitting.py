"""The search for what fits: its result is that of trying every option with rendered prompts."""

import random
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from fakes import Model, task_of
from sampling import examples
from secondpass.effects import Task
from secondpass.limits import Left, Limits, Prices
from secondpass.prompts.template import Prompting
from secondpass.runtime.dry_run import SimulatedLedger, dry_run
from secondpass.strategies.auto import Auto
from secondpass.strategies.base import Bounds, bounds_of
from secondpass.strategies.cost_plan import PlannedStage
from secondpass.strategies.estimates import (
    Trial,
    exceeded_limits,
    most_readable,
    most_waves,
    planned_stage,
)
from secondpass.strategies.fitting import Fitting, Option
from secondpass.strategies.parts import part_of
from secondpass.strategies.windows import judged_by_windows


def plain_choice(method: Auto, task: Task, left: Left) -> tuple[str, int, str]:
    """The strategy, the number of candidates and the reason, by all options at each step."""
    pace = 1.2 * method.seconds_per_call
    if left.seconds is not None:
        left = replace(left, seconds=max(left.seconds, pace))
    group, count = plain_group(method, task), len(task.texts)

    def fitting(part):
        rejected = []
        for option in method._options:
            exceeded = plain_exceeded(method, option, group, part, left, pace)
            if not exceeded:
                return option, "; ".join(rejected)
            rejected.append(f"{option.name}: {', '.join(exceeded)}")
        return None, "; ".join(rejected)

    def result(option, most, reason):
        fewer = option.groups and group < 20
        shown = f", {group} candidates per question," if fewer else ""
        strategy = method._strategy(option, group, task.top_k)
        return strategy, most, f"{option.name}{shown} {reason}"

    readable = most_readable(task.texts, method.llm, method.prompt, left)
    option, rejected = fitting(task) if readable == count else (None, "tokens to show each once")
    if option is not None:
        reason = "has the best expected quality"
        return result(
            option, count, reason + (rejected and f" of what fits; what does not: {rejected}")
        )
    best, fits, fails = method._options[-1], 2, min(count, readable + 1)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        option, _ = fitting(part_of(task, range(middle)))
        if option is None:
            fails = middle
        else:
            best, fits = option, middle
    reason = f"judges most candidates, since nothing fits all: {rejected}"
    return result(best, min(fits, count), reason)


def plain_exceeded(method, option, group, task, left, pace):
    if option.top_k is not None and task.top_k is not None and task.top_k >= group:
        return ["top_k"]
    strategy = method._strategy(option, group, task.top_k)
    count = len(task.texts)
    bounds = bounds_of(strategy, count) or Bounds()
    time = pace * most_waves(bounds, left.concurrency)
    needs = PlannedStage("", count, bounds.calls, bounds.rounds, seconds=(time, time))
    names = [item.limit for item in exceeded_limits(needs, left)]
    window = getattr(method.llm, "context_window", None)
    if names or (left.tokens is left.cost is window is None):
        return names
    needs = plain_estimate(strategy, task, left.concurrency)
    if needs.problem or (needs.shortened and not option.groups):
        return ["context_window"]
    return [item.limit for item in exceeded_limits(needs, left)]


def plain_group(method, task):
    if getattr(method.llm, "context_window", None) is None:
        return 20
    longest = sorted(range(len(task.texts)), key=lambda index: -len(task.texts[index]))
    for group in (20, 10):
        strategy = method._strategy(method._options[0], group, None)
        needs = plain_estimate(strategy, part_of(task, longest[:group]), 8)
        if not (needs.shortened or needs.problem):
            return group
    return 5


def plain_estimate(strategy, task, concurrency):
    """By a dry run whose prompts are rendered."""
    ledger = SimulatedLedger(Limits(concurrency=concurrency))
    run = dry_run(judged_by_windows(strategy, task), ledger)
    return planned_stage(Trial(strategy, task, run), concurrency, None)


SHARES = st.sampled_from([None, 0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95, 1.3, 2.0, 2.6, 4.0])
LIMITS = st.fixed_dictionaries(
    {"tokens": SHARES, "cost": SHARES},
    optional={
        "calls": st.integers(0, 12),
        "seconds": st.floats(0, 40),
        "concurrency": st.integers(1, 9),
    },
)


@examples(60)
@given(
    LIMITS,
    st.integers(1, 70),
    st.sampled_from([(20, 20), (100, 900), (0, 4000)]),
    st.sampled_from([None, None, 1, 12]),
    st.sampled_from([None, None, 800, 3000, 20_000]),
    st.sampled_from(["opaque", "id", "index1"]),
    st.sampled_from([{}, {"passage_tokens": 40}, {"system": lambda values: values["reply"]}]),
    st.integers(0, 1000),
)
def test_the_choice_is_that_of_trying_all(
    limits, count, lengths, top_k, window, labels, prompting, seed
):
    source = random.Random(seed)
    texts = ["wombat é <" * (source.randint(*lengths) // 10) for _ in range(count)]
    # Limits are near what it takes to show each text once.
    once = 300 + sum(len(text) for text in texts) / 4
    units = {"tokens": once, "cost": once * 2e-6}
    amounts = {name: share and share * units.get(name, 1) for name, share in limits.items()}
    left = Left(**amounts)
    llm = Model(prices=Prices(1, 10), **({} if window is None else {"context_window": window}))
    method = Auto(llm, labels=labels, prompt=Prompting(**prompting))
    task = replace(task_of(texts), top_k=top_k)
    choice = method.choose(task, left)
    event("all" if choice.count == count else "some" if choice.count > 2 else "two")
    assert (choice.method, choice.count, choice.reason) == plain_choice(method, task, left)
    assert task.text_tokens is None


def search(fits, options="abc", count=100):
    """A search among options named by letters that fit what a function of both says."""
    tried = []

    class Bounded:
        def __init__(self, name):
            self.name = name

        def bounds(self, number):
            tried.append((self.name, number))
            return Bounds.exactly(1 if fits(self.name, number) else 2, 1)

    made = {name: Bounded(name) for name in options}
    return tried, Fitting(
        [Option(name) for name in options],
        lambda option: made[option.kind],
        20,
        Model(),
        task_of(["x"] * count),
        Left(calls=1),
        1.0,
    )


@pytest.mark.parametrize("most", [2, 3, 40, 98, 99])
def test_most_candidates_by_the_first_option_that_fits_them(most):
    _, fitting = search(lambda name, number: number <= (most if name != "a" else 1))
    option, count = fitting.most(100)
    assert count == most
    assert option.name == ("b" if most > 2 else "c")  # two need not fit


def test_what_fitted_last_is_tried_first():
    tried, fitting = search(lambda name, number: name == "b" and number < 20)
    assert fitting.most(100)[1] == 19
    assert tried[:6] == [*zip("cba", [51] * 3, strict=True), *zip("cba", [26] * 3, strict=True)]
    # 14, 20, 17, 18, 19: fits, not, fits, fits, fits; at last, the first that fits 19.
    assert [name for name, _ in tried[6:]] == [*"cb", *"bca", *"b", *"b", *"b", *"ab"]


def test_reasons_of_those_that_do_not_fit():
    _, fitting = search(lambda name, number: name == "c")
    assert fitting.first(100) == (Option("c"), "a: calls; b: calls")
    _, fitting = search(lambda name, number: False)
    assert fitting.first(100) == (None, "a: calls; b: calls; c: calls")
