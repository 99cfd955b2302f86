"""What is often passed to the evaluation by mistake: the message says what is wrong."""

import re

import numpy as np
import pytest

import secondpass_evaluation as evaluation
from secondpass import Reranker, SecondPassError

TEXTS = [{"id": "0", "text": "a red car"}, {"id": "1", "text": "the red panda"}]
QRELS = {"q": {"1": 1}}
RANKING = Reranker("lexical").rerank("panda", TEXTS)


class Frame:
    """Stands for a DataFrame of pandas, which has no truth value."""

    def __bool__(self):
        raise ValueError("The truth value of a DataFrame is ambiguous")


def suite(queries={"q": "panda"}, qrels=QRELS, **parts):  # noqa: B006 - never changed
    return evaluation.make_suite("s", queries, qrels, **({"corpus": TEXTS} | parts))


CALLS = [
    (lambda _: suite(["panda"]), "s: queries: must be a mapping, not a list"),
    (lambda _: suite(Frame()), "s: queries: must be a mapping, not a Frame"),
    (lambda _: suite(qrels=[("q", "1", 1)]), "s: qrels: must be a mapping, not a list"),
    (lambda _: suite(qrels={"q": ["1"]}), "s: qrels['q']: must be a mapping, not a list"),
    (lambda _: suite(corpus={"0": "a car"}), "s: corpus: give a sequence of strings, mappings or"),
    (lambda _: suite(corpus=["a car"]), "s: corpus[0].id: must be a string or an integer"),
    (lambda _: suite(candidates=[TEXTS]), "s: candidates: must be a mapping, not a list"),
    (lambda _: evaluation.evaluate(RANKING, QRELS), "run: must be a mapping, not a Ranking"),
    (lambda _: evaluation.evaluate({"q": ["1"]}, QRELS), "run['q']: must be a mapping, not a list"),
    (lambda _: evaluation.evaluate("run.txt", QRELS), "run: must be a mapping, not 'run.txt'"),
    (lambda _: evaluation.evaluate({}, ["1"]), "qrels: must be a mapping, not a list"),
    (lambda _: evaluation.evaluate({}, {"q": {"1"}}), "qrels['q']: must be a mapping, not a set"),
    (lambda _: evaluation.ranking_to_run(RANKING), "rankings: must be a mapping, not a Ranking"),
    (lambda _: evaluation.ranking_to_run([RANKING]), "rankings: must be a mapping, not a list"),
    (lambda path: evaluation.write_run(path, RANKING), "run: must be a mapping, not a Ranking"),
    (lambda path: evaluation.write_run(path, {"q": ["1"]}), "run['q']: must be a mapping"),
    (lambda path: evaluation.write_qrels(path, ["1"]), "qrels: must be a mapping, not a list"),
    (lambda path: evaluation.write_queries(path, ["a"]), "queries: must be a mapping, not a list"),
    (lambda path: evaluation.write_corpus(path, TEXTS), "candidate 1: must be a Candidate, not a "),
    (lambda _: evaluation.kappa([1], [1]), "model: must be a mapping, not a list"),
    (lambda _: evaluation.holm("p"), "p_values[0]: must lie between 0 and 1, not 'p'"),
    (lambda _: evaluation.holm(np.array([2.0])), "p_values[0]: must lie between 0 and 1"),
    (lambda _: evaluation.compare(suite(), {"a": "lexical"}), "suite: give one of load_suite or"),
]


@pytest.mark.parametrize(("call", "part"), CALLS)
def test_the_wrong_argument(call, part, tmp_path):
    with pytest.raises(SecondPassError, match=re.escape(part)):
        call(tmp_path / "file")
    assert not (tmp_path / "file").exists()
