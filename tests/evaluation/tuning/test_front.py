"""The plot of quality against time."""

from dataclasses import replace

import pytest

from reports import INJECTIONS, Parsed
from secondpass_evaluation.tuning.result import front_plot
from tuning_results import FRONT, tuning

pytest.importorskip("matplotlib")


def test_the_first_stage_alone_has_no_plot():
    assert front_plot(tuning(front=FRONT[:1])) is None


def test_each_point_is_numbered_named_and_described():
    svg = Parsed(front_plot(tuning()))
    texts = {text.strip() for text in svg.texts}
    assert {"1", "2", "1  lexical, no second pass", "2  words, depth 20, no blend"} <= texts
    assert "2 words, depth 20, no blend: 0.6000, 12.3 ms, 2.00 per 1,000 queries" in texts
    (label,) = svg.all("aria-label")
    assert label.startswith("1 lexical, no second pass: 0.4000, 0 ms. 2 words")


def test_names_stay_text():
    points = (FRONT[0], replace(FRONT[1], name=INJECTIONS["script"], cost=None))
    svg = Parsed(front_plot(tuning(front=points)))
    assert "script" not in svg.tags
    assert any("<script" in text for text in svg.texts)
