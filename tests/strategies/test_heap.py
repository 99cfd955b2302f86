"""The heap: what is asked at the same time, and that the best are taken."""

import random

import pytest

from secondpass.strategies.base import Bounds
from secondpass.strategies.heap import Heap, heap_bounds


def run(plan, best):
    """The result of a plan, and the sets of each round; ``best`` answers a set."""
    rounds, answers = [], None
    while True:
        try:
            sets = plan.send(answers)
        except StopIteration as stop:
            return stop.value, rounds
        rounds.append(sets)
        answers = [best(list(items)) for items in sets.values()]


def ask(sets):
    return (yield sets)


def by(numbers):
    return lambda items: max(range(len(items)), key=lambda place: numbers[items[place]])


def sorted_heap(numbers, width, count):
    heap = Heap(len(numbers), width)
    _, building = run(heap.build(ask), by(numbers))
    taken, taking = run(heap.take(count, ask), by(numbers))
    return taken, building, taking


@pytest.mark.parametrize("width", [2, 3, 7])
@pytest.mark.parametrize("size", [1, 2, 5, 20, 31])
def test_the_best_are_taken_in_order(size, width):
    for seed in range(5):
        numbers = random.Random(seed).sample(range(1000), size)
        expected = sorted(range(size), key=lambda index: -numbers[index])
        for count in (1, size // 2 or 1, size):
            taken, building, taking = sorted_heap(numbers, width, count)
            assert taken == expected[:count]
            bounds = heap_bounds(size, width, count)
            rounds = building + taking
            assert bounds.calls[0] <= sum(map(len, rounds)) <= bounds.calls[1]
            assert bounds.rounds[0] <= len(rounds) <= bounds.rounds[1]


def test_parts_that_do_not_depend_on_each_other_are_asked_at_once():
    _, building, _ = sorted_heap([9, 8, 7, 6, 5, 4, 3], 2, 1)
    assert building == [{2: [2, 5, 6], 1: [1, 3, 4]}, {0: [0, 1, 2]}]


def test_a_set_without_an_answer_stays_while_the_heap_is_built():
    heap = Heap(3, 2)
    run(heap.build(ask), lambda items: None)
    assert heap.items == [0, 1, 2]


def test_without_answers_the_best_retrieved_child_moves_up():
    heap = Heap(7, 2)
    run(heap.build(ask), lambda items: None)
    taken, _ = run(heap.take(7, ask), lambda items: None)
    assert taken == [0, 1, 2, 3, 5, 6, 4]


@pytest.mark.parametrize(
    ("size", "width", "number", "bounds"),
    [
        (0, 2, 1, Bounds()),
        (1, 2, 1, Bounds()),
        (2, 2, 1, Bounds.exactly(1, 1)),
        (3, 2, 2, Bounds((2, 2), (2, 2))),
        (7, 2, 1, Bounds((3, 4), (2, 3))),
    ],
)
def test_bounds(size, width, number, bounds):
    assert heap_bounds(size, width, number) == bounds
