"""Cells and rows of tables."""

import pytest

from secondpass_evaluation.report.cells import SYSTEM, Cell, Column, row

BEST = Cell("0.5", "gain", best=True)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((), ()),
        (("a", ""), (Cell("a"), Cell(""))),
        (("a", BEST), (Cell("a", tone="", best=False), BEST)),
    ],
    ids=["none", "texts", "text and cell"],
)
def test_a_text_in_a_row_is_a_cell_without_colour(cells, expected):
    assert row(*cells) == expected


def test_columns_are_numbers_unless_they_are_named_texts():
    assert (Column("calls").kind, SYSTEM.kind) == ("number", "text")
