"""``secondpass presets``."""

import json


def test_presets_are_listed_one_a_line_for_whatever_reads_them(secondpass):
    told = secondpass("presets")
    names = json.loads(secondpass("presets", "--json").out)
    assert [line.split()[0] for line in told.out.splitlines()] == ["preset", *names]
