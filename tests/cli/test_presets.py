"""``secondpass presets``."""

import json

from terminals import on_a_terminal


def test_presets_are_listed_one_a_line_or_as_json(secondpass):
    names = json.loads(secondpass("presets").out)
    assert names == json.loads(secondpass("presets", "--json").out)
    shown = on_a_terminal("presets", env={"COLUMNS": "300", "NO_COLOR": "1"})
    assert [line.split()[0] for line in shown.splitlines()[1:]] == [*names]
