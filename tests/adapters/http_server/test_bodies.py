"""How deep and how large a body is, before it is parsed."""

import pytest

from secondpass.adapters.http_server import bodies
from secondpass.adapters.http_server.problems import RequestError


@pytest.mark.parametrize("raw", [b'"\\' * 10**6, b'"' + b'\\"' * 10**6, b'"' * (10**6 + 1)])
def test_strings_without_an_end_take_no_time(raw):
    """Quadratic time would be days."""
    with pytest.raises(RequestError) as caught:
        bodies.parse(raw)
    assert caught.value.status == 400


def test_values_are_counted_outside_strings():
    assert bodies._count_values(rb'{"a\"b,[": ["c\\", {}], "e,') == 5
