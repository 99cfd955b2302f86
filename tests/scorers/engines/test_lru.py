import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from secondpass.scorers.engines.lru import LRU


def filled(capacity, keys, cost=None):
    cache = LRU(capacity, cost)
    cache.put_many((key, key.upper()) for key in keys)
    return cache


def test_values_come_back_in_order_of_the_keys():
    cache = filled(3, "abc")
    assert cache.get_many("cxa") == ["C", None, "A"]
    assert cache.get_many([]) == []


def test_the_least_recently_used_is_forgotten():
    cache = filled(3, "abc")
    cache.get_many("a")
    cache.put_many([("d", "D")])
    assert cache.get_many("abcd") == ["A", None, "C", "D"]
    assert len(cache) == cache.total == 3


def test_a_known_key_gets_the_new_value():
    cache = filled(2, "ab")
    cache.put_many([("a", "new"), ("c", "C")])
    assert cache.get_many("abc") == ["new", None, "C"]


def test_capacity_by_cost():
    cache = filled(10, ["aaaa", "bbbb"], lambda key, value: len(key))
    assert cache.total == 8
    cache.put_many([("ccc", "C")])
    assert cache.get_many(["aaaa", "bbbb", "ccc"]) == [None, "BBBB", "C"]
    assert cache.total == 7


def test_one_that_costs_too_much_forgets_no_other():
    cache = filled(10, ["aaaa"], lambda key, value: len(value))
    cache.put_many([("b", "b" * 11)])
    assert cache.get_many(["aaaa", "b"]) == ["AAAA", None]
    cache.put_many([("aaaa", "a" * 11)])
    assert (len(cache), cache.total) == (0, 0)


def test_capacity_of_none():
    cache = filled(0, "ab")
    assert cache.get_many("ab") == [None, None]


def test_clear():
    cache = filled(3, "abc", lambda key, value: 1)
    cache.clear()
    assert (cache.get_many("a"), cache.total) == ([None], 0)
    cache.put_many([("a", "A")])
    assert cache.get_many("a") == ["A"]


def test_many_threads():
    cache = LRU(50, lambda key, value: value)
    barrier = threading.Barrier(8)

    def use(thread):
        barrier.wait(60)
        for number in range(500):
            key = (thread * 7 + number * 3) % 40
            cache.put_many([(key, 1 + key % 3)])
            assert cache.get_many([key])[0] in (None, 1 + key % 3)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    values = [value for value in cache.get_many(range(40)) if value]
    assert cache.total == sum(values) <= 50
    assert len(cache) == len(values)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_between_an_entry_and_its_cost():
    cache = filled(3, "ab")
    cache._total = 99  # as another thread may leave it for the child
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        cache.put_many([("c", "C")])
        os._exit(cache.get_many("abc") != ["A", "B", "C"] or cache.total != 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
