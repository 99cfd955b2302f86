"""The numbers that pages repeat are those of docs/evidence.md and docs/data, rounded at most."""

import re
from pathlib import Path

import pytest

from secondpass.config import preset

ROOT = Path(__file__).parents[2]


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


README, EVIDENCE = text_of("README.md"), text_of("docs/evidence.md")
SPEED, TABLES = text_of("docs/data/speed.md"), text_of("docs/data/tables.md")
WHICH, MODELS = text_of("docs/which-method.md"), text_of("docs/models.md")


def rows(page: str, *, first: str = "", after: str = "") -> list[list[str]]:
    """The rows of tables, without the marks of bold and code: those with a first cell, or of the
    table that follows a text."""
    if after:
        table = re.search(r"^\|.*?(?=^(?!\|))", page.partition(after)[2], re.DOTALL | re.MULTILINE)
        page = table[0] if table else ""
    cells = [
        [re.sub(r"[*`]", "", cell).strip() for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*\|$", page, re.MULTILINE)
    ]
    return [row for row in cells if row[0].startswith(first)]


def found(page: str, pattern: str) -> tuple[str, ...]:
    """The groups of the only match, in which any white space is a blank."""
    matches = re.findall(pattern, re.sub(r"\s+", " ", page))
    assert len(matches) == 1, pattern
    return tuple(matches[0]) if isinstance(matches[0], tuple) else (matches[0],)


QUALITY = rows(EVIDENCE, after="<!-- begin: quality,")[2:]


def test_the_table_of_gains():
    table = rows(README, after="<!-- begin: summary,")[2:]
    assert table == [[*row[:5], f"{row[5]} ({row[6]})"] for row in QUALITY]


def test_the_gains_of_the_first_lines():
    expected = [
        row[3:5] for row in QUALITY
        if row[0] == "TREC DL 2019" and row[1] in ("BM25", "Contriever")
    ]  # fmt: skip
    numbers = found(README, r"from (\.\d+) to (\.\d+) after .*? from (\.\d+) to (\.\d+) after")
    assert [list(numbers[:2]), list(numbers[2:])] == expected


@pytest.mark.parametrize("depth", [20, 50])
def test_the_share_of_the_gain_that_fewer_candidates_keep(depth):
    words, vectors, hybrid = (
        row[["10", "20", "50", "100"].index(str(depth)) + 1].removesuffix(" %")
        for row in rows(EVIDENCE, first="share of the gain at 100")
    )
    (row,) = (row for row in rows(README, first=f"{depth}") if len(row) == 4)
    assert row[3] == f"{vectors} / {words} / {hybrid} %"


def test_the_time_of_stored_passages():
    (measured,) = (row[1] for row in rows(EVIDENCE, first="100 known") if row[0] == "100 known")
    (row,) = rows(README, first="100 [stored]")
    assert row[1] == f"{float(measured.removesuffix(' ms')) / 1000:.2f} s"
    ((_, encoded),) = rows(EVIDENCE, first="100 encoded")
    assert float(encoded.split(" ms")[0]) / float(measured.removesuffix(" ms")) > 50
    assert "less than a fiftieth" in re.sub(r"\s+", " ", MODELS)


def ratios() -> list[float]:
    """How many times as many pairs as sentence-transformers, with any processor and length."""
    return [
        float(row[column]) for row in rows(EVIDENCE, first="secondpass, auto") for column in (2, 4)
    ]


@pytest.mark.parametrize(("page", "pattern"), [
    (README, r"scores (\d\.\d) to (\d\.\d) times as many pairs on one core"),
    (MODELS, r"\[(\d\.\d) to (\d\.\d) times as fast\]\(evidence\.md#speed\) as sentence-transf"),
])  # fmt: skip
def test_the_speed_beside_sentence_transformers(page, pattern):
    assert len(ratios()) == 4
    assert found(page, pattern) == (f"{min(ratios()):.1f}", f"{max(ratios()):.1f}")


def test_the_speed_of_other_packages():
    flashrank, ours, exact, by_hand = (
        next(row[1] for row in rows(SPEED, first=name) if len(row) == 10)
        for name in ("FlashRank", "secondpass, auto", "secondpass, exact, onnx", "loop, openvino,")
    )
    pairs = r"it scores (\d+) pairs per CPU second, secondpass (\d+) in bfloat16, "
    numbers = found(README, pairs + r"(\d+) in float32")
    assert numbers == tuple(f"{float(number):.0f}" for number in (flashrank, ours, exact))
    assert 0.97 <= float(ours) / float(by_hand) <= 1.03  # "your own loop … is as fast"
    slow = float(rows(EVIDENCE, first="secondpass, auto (OpenVINO")[0][1])
    assert (round(100 / float(ours), 1), round(100 / slow, 1)) == (0.5, 2.0)
    assert "needs half a second to two seconds of one CPU core" in re.sub(r"\s+", " ", MODELS)


def test_the_tables_of_speed_agree():
    measured = {row[0].partition(", 1024")[0]: row for row in rows(SPEED) if len(row) == 10}
    table = rows(EVIDENCE, after="*Loop* is what a user could do best")
    for name, *cells in table[2:]:
        row = measured[name]
        assert cells == [row[1], row[2], row[4], row[5], row[7], row[8]], name


def test_the_faulty_replies():
    for page in (EVIDENCE, TABLES):
        (row,) = rows(page, first="every node returned once")
        right, of = map(int, row[1].split(" of "))
        assert all(cell.split(" of ")[0] == cell.split(" of ")[1] for cell in row[4:])
    assert found(README, r"after (\d+) of (\d+) \[faulty") == (f"{of - right}", f"{of}")


def test_the_figures_of_which_method():
    published = rows(EVIDENCE, first="ms-marco-MiniLM-L6-v2")[0][1]
    assert found(WHICH, r"\((\.\d+) against (\.\d+) on DL 2019, below\)") == (
        published, QUALITY[0][4]
    )  # fmt: skip
    tokens = found(EVIDENCE, r"passages after BM25 have (\d+), (\d+), (\d+) and (\d+) tokens")
    assert found(WHICH, r"they have (\d+) tokens on average") == (
        f"{sum(map(int, tokens)) / 4:.0f}",
    )


@pytest.mark.parametrize("name", ["embedded", "default", "fast", "accurate", "accurate_local",
                                  "multilingual_hub", "accurate_multilingual"])  # fmt: skip
def test_the_depths_of_presets(name):
    """README's default, and what which-method.md says of its table of cross-encoders."""
    depths = {"embedded": 50, "multilingual_hub": 50, "fast": 30, "accurate_multilingual": 20}
    assert preset(name)["depth"] == depths.get(name, 100)
    text = re.sub(r"\s+", " ", WHICH)
    assert name not in depths or f"`{name}` ({depths[name]})" in text or name == "embedded"
    assert "| 50 (default) |" in README
