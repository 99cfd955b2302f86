"""The demo's parts, without its minute of encoding."""

import io
import shlex
import sys
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
import yaml

from command_calls import called
from secondpass import Candidate, Issue, Report, Reranker, Usage
from secondpass_evaluation import Evaluation, HybridRetriever, difference

EXAMPLES = Path(__file__).parents[2] / "examples"

MEASURES = ("nDCG@10", "RR(rel=2)@10", "R(rel=2)@10")
PASSAGES = {
    "itertools.islice": "Make an iterator that returns selected elements from the iterable.",
    "collections.deque": "A list-like sequence optimized for data accesses near its endpoints.",
    "list.append": "Append object to the end of the list.",
    "dict.setdefault": "Insert key with a value of default if key is not in the dictionary.",
    "str.zfill": "Pad a numeric string with zeros on the left, to fill a field of given width.",
}


class Hashed:
    """Vectors that mean nothing and are the same on every machine."""

    def embed(self, texts):
        rows = np.stack(
            [np.random.default_rng(sum(text.encode())).normal(size=8) for text in texts]
        )
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def retriever():
    corpus = [Candidate(text, id=name, metadata={"title": name}) for name, text in PASSAGES.items()]
    return HybridRetriever(corpus, Hashed())


@pytest.mark.long  # imports both frameworks
def test_the_three_ways_in_give_the_same_order(retriever):
    import frameworks

    question = "pad a number with zeros"
    found = retriever.retrieve(question, 4)
    order = [
        item.id for item in Reranker.from_config(EXAMPLES / "demo.yaml").rerank(question, found)
    ]
    assert frameworks.haystack_order(question, retriever, 4) == order
    assert frameworks.llama_index_order(question, retriever, 4) == order


def test_the_pipeline_holds_the_configuration_of_the_demo():
    pipeline = yaml.safe_load((EXAMPLES / "haystack_pipeline.yaml").read_text())
    inside = pipeline["components"]["ranker"]["init_parameters"]["reranker"]
    alone = yaml.safe_load((EXAMPLES / "demo.yaml").read_text())
    assert Reranker.from_config(inside).to_config() == Reranker.from_config(alone).to_config()


def test_grades_are_found_by_key(retriever):
    import demo

    found = retriever.retrieve("zeros", 5)
    measured = demo.measured({"q": found}, {"q": {"str.zfill": 3}})
    assert measured.mean["nDCG@10"] > 0
    assert demo.graded("str.zfill#2", {"str.zfill": 3}).plain == "str.zfill#2 ***"


def test_the_report_names_its_issues():
    import demo

    usage = Usage(pairs=20)
    issue = Issue("text_truncated", "3 texts were cut to 128 tokens")
    report = Report("ok", method="m", usage=usage, issues=(issue,))
    assert demo.report_text(report) == (
        "Report: status ok, method m, 20 pairs, 1 issue (text_truncated: 3 texts were cut to 128 "
        "tokens)."
    )
    assert demo.report_text(Report("ok", method="m", usage=usage)).endswith("20 pairs, 0 issues.")


def evaluation(**values):
    means = dict.fromkeys(MEASURES, mean(values.values()))
    return Evaluation(dict.fromkeys(MEASURES, values), means)


def test_questions_are_shown_by_rule():
    import demo

    changed = {"a": 0.0, "b": -0.2, "c": 0.5, "d": 0.1, "e": 0.0, "f": 0.5, "g": -0.2}
    shown = demo.chosen_by_rule(changed)
    assert shown == {"c": "the largest gain", "a": "the median", "g": "the largest loss"}
    equal = demo.chosen_by_rule(dict.fromkeys("abc", 0.0))
    assert equal == {"a": "no question gains", "b": "the median", "c": "no question loses"}


def test_the_last_lines_say_what_to_type(tmp_path, monkeypatch):
    import demo

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    lines = demo.NEXT.splitlines()
    assert max(map(len, lines)) <= 80
    commands = [line[2:].partition("  ")[0] for line in lines if line.startswith("  ")]
    assert commands[0] == ". .venv/bin/activate"
    assert (EXAMPLES.parent / shlex.split(commands[1])[1]).is_file()
    for command in commands[2:]:
        program, *arguments = shlex.split(command)
        assert program == "secondpass"
        outcome = called(*arguments)
        assert outcome.code == 0, f"{command}: {outcome.err}"


BEFORE = {"a": 0.1, "b": 0.5, "c": 0.3, "d": 0.1, "e": 0.5, "f": 0.3}
AFTER = {"a": 0.9, "b": 0.4, "c": 0.3, "d": 0.9, "e": 0.4, "f": 0.3}


@pytest.mark.parametrize("width", [80, 120])
def test_figures_fit_into_a_terminal(width):
    import demo
    from rich.console import Console

    before = evaluation(**BEFORE)
    results, compared = {}, {}
    for mode in demo.MODES:
        after = evaluation(**AFTER)
        results |= {mode: before, f"{mode}+rerank": after}
        measured = (one.per_query["nDCG@10"] for one in (after, before))
        compared[f"{mode}+rerank"] = difference("nDCG@10", *measured, test="t")
    console = Console(width=width, record=True, file=io.StringIO())
    demo.show_figures(console, results, compared)
    lines = console.export_text().splitlines()
    rows = [line.split() for line in lines]
    assert max(map(len, map(str.rstrip, lines))) <= width
    assert ["vector", "0.300", "0.300", "0.300"] in rows
    assert ["lexical+rerank", "0.533", "0.533", "0.533", "+0.233", "(-0.230", "to", "+0.696)",
            "2/2"] in rows  # fmt: skip
    headings = [cell for row in rows[:4] for cell in row]
    assert {"RR@10", "(rel=2)", "nDCG@10", "better", "/worse"} <= set(headings)


def test_no_figure_is_cut_in_a_narrow_terminal():
    import demo
    from rich.console import Console

    before, after = evaluation(**BEFORE), evaluation(**AFTER)
    measured = (one.per_query["nDCG@10"] for one in (after, before))
    compared = {"vector+rerank": difference("nDCG@10", *measured, test="t")}
    console = Console(width=60, record=True, file=io.StringIO())
    demo.show_figures(console, {"vector": before, "vector+rerank": after}, compared)
    text = console.export_text()
    assert "…" not in text
    words = " ".join(text.split())
    assert "+0.233 (-0.230 to +0.696)" in words
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize(
    ("after", "effect"),
    [
        ((0.6, 0.62, 0.58) * 2, "improves the ranking"),
        ((0.4, 0.42, 0.38) * 2, "makes the ranking worse"),
        ((0.6, 0.4, 0.5) * 2, "makes no significant difference"),
    ],
)
def test_the_verdict_says_whether_the_second_pass_pays(after, effect):
    import demo

    values = {"a": 0.5, "b": 0.51, "c": 0.49, "d": 0.5, "e": 0.51, "f": 0.49}
    reranked = dict(zip(values, after, strict=True))
    compared = {"vector+rerank": difference("nDCG@10", reranked, values, test="t")}
    results = {"vector": evaluation(**values), "vector+rerank": evaluation(**reranked)}
    said = demo.verdict(results, compared)
    assert effect in said
    best = max(results, key=lambda one: results[one].mean["nDCG@10"])
    assert f"best of the six here is {best}," in said
