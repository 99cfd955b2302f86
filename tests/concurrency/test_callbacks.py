"""Functions that are called and not awaited."""

from functools import partial

import pytest

from secondpass.concurrency.callbacks import check_callback
from secondpass.errors import InputError


async def awaited():
    pass


async def generates():
    yield


class Awaited:
    async def __call__(self):
        pass


@pytest.mark.parametrize(
    "function", [None, print, lambda: None, int, partial(print, "a"), [].append], ids=range(6)
)
def test_functions(function):
    check_callback("on_interim", function)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "on_interim: give a function, not an int"),
        ("print", "on_interim: give a function, not a str"),
        (awaited, "it is not awaited"),
        (generates, "it is not awaited"),
        (Awaited(), "it is not awaited"),
        (partial(awaited), "it is not awaited"),
    ],
    ids=["number", "string", "async function", "async generator", "async object", "partial"],
)
def test_what_is_no_function_or_awaited(value, message):
    with pytest.raises(InputError, match=message):
        check_callback("on_interim", value)
