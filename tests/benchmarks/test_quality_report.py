"""Tables and plots of the quality benchmark, from made-up measurements."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DEPTHS = ("10", "20", "50", "100")


@pytest.fixture(scope="module")
def report():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import quality_report
    finally:
        sys.path.pop(0)
    quality_report.RESAMPLES = 200
    return quality_report


def record(collection, behind="words", seen=True, scale=1.0):
    generator = np.random.default_rng(len(collection))
    before = {f"q{number}": 0.4 for number in range(8)}

    def after(depth):
        gains = scale * int(depth) / 1000 + generator.normal(0, 0.01, len(before))
        return {query: 0.4 + float(gain) for query, gain in zip(before, gains, strict=True)}

    return {
        "collection": collection,
        "first_stage": "BM25, stemmed" if behind == "words" else "MiniLM",
        "behind": behind,
        "english": not collection.endswith("de"),
        "seen": seen,
        "before": before,
        "methods": {
            name: {
                depth: {"after": after(depth), "pairs": int(depth), "statuses": {"ok": 8}}
                for depth in DEPTHS
            }
            for name in ("embedded", "embedded alone", "lexical")
        },
        "cpu": {
            name: {depth: cost * int(depth) for depth in DEPTHS}
            for name, cost in (("embedded", 10.0), ("embedded alone", 10.0), ("lexical", 0.01))
        },
    }


@pytest.fixture(scope="module")
def records():
    return [
        record("trec-dl19"),
        record("cranfield"),
        record("xquad-de", scale=-1.0),
        record("trec-dl19", "vectors"),
    ]


def test_unseen_collections_stand_apart(report, records):
    more = [*records, record("new", seen=False)]
    for name in ("unseen", "summary_unseen"):
        assert report.SECTIONS[name](records) == ""
        assert "| new | BM25 | 8 |" in report.SECTIONS[name](more)
    for name in ("quality", "depth", "summary"):
        assert report.SECTIONS[name](more) == report.SECTIONS[name](records)


def test_the_docs_are_written_in_place(report, records, tmp_path):
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/evidence.md"):
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    report.write_docs(records, tmp_path)
    first = [(tmp_path / name).read_text() for name in ("README.md", "docs/evidence.md")]
    assert all("| Cranfield | BM25 | 8 | .400 |" in text for text in first)
    assert "share of the gain at 100" in first[1]
    report.write_docs(records, tmp_path)
    assert [(tmp_path / name).read_text() for name in ("README.md", "docs/evidence.md")] == first
    report.write_docs([record("python-docs", seen=False)], tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "| Cranfield | BM25 | 8 | .400 |" in text  # a table without measurements stays
    assert "| Python's documentation | BM25 | 8 | .400 |" in text
    for name in ("quality.svg", "before-after.svg"):
        root = ElementTree.fromstring((tmp_path / "docs" / name).read_text(encoding="utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "#01010" not in (tmp_path / "docs" / name).read_text(encoding="utf-8")
