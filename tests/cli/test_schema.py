"""``secondpass schema``."""

import json

from secondpass.config import json_schema
from terminals import on_a_terminal


def test_the_schema_is_plain_json_in_a_terminal():
    text = on_a_terminal("schema", "--json")
    assert json.loads(text) == json_schema()
    assert len(text) <= 300_000  # editors read it with each configuration
