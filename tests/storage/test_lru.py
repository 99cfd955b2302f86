from secondpass.storage.lru import LRU


def filled(capacity, keys):
    cache = LRU(capacity)
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
    assert len(cache) == 3


def test_a_known_key_gets_the_new_value():
    cache = filled(2, "ab")
    cache.put_many([("a", "new"), ("c", "C")])
    assert cache.get_many("abc") == ["new", None, "C"]


def test_clear():
    cache = filled(3, "abc")
    cache.clear()
    assert (cache.get_many("a"), len(cache)) == ([None], 0)
    cache.put_many([("a", "A")])
    assert cache.get_many("a") == ["A"]
