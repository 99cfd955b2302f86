"""``secondpass schema``."""

import json

from secondpass.config import json_schema
from terminals import on_a_terminal


def test_the_schema_is_plain_json_in_a_terminal():
    assert json.loads(on_a_terminal("schema", "--json")) == json_schema()
