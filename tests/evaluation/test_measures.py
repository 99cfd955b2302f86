import math
import shutil
from pathlib import Path

import ir_measures
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from sampling import examples
from secondpass import Candidate, InputError, Reranker
from secondpass_evaluation import (
    MeasureError,
    evaluate,
    ranking_to_run,
    read_qrels,
    read_run,
    write_qrels,
    write_run,
)

QRELS = {"q1": {"a": 2, "b": 0, "c": 1}, "q2": {"a": 1}, "q3": {"z": 0}}

names = st.sampled_from(["a", "b", "c", "d", "e"])
tied_runs = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "q4"]),
    st.dictionaries(names, st.sampled_from([0.0, 1.0, 1.0 + 1e-9, 2.0]), max_size=5),
    max_size=4,
)
some_qrels = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(names, st.integers(0, 3), min_size=1, max_size=5),
    min_size=1,
)
MEASURES = ["nDCG@10", "nDCG@2", "RR", "R@100", "AP(rel=2)", "P@1"]


in_tmp_path = settings(examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(run=tied_runs, qrels=some_qrels)
@in_tmp_path
def test_as_ir_measures_on_files(tmp_path: Path, run, qrels) -> None:
    write_run(tmp_path / "run", run)
    write_qrels(tmp_path / "qrels", qrels)
    direct = ir_measures.calc(
        [ir_measures.parse_measure(name) for name in MEASURES],
        list(ir_measures.read_trec_qrels(str(tmp_path / "qrels"))),
        list(ir_measures.read_trec_run(str(tmp_path / "run"))),
    )
    ours = evaluate(run, qrels, MEASURES)
    assert list(ours.mean) == list(ours.per_query) == MEASURES
    for metric in direct.per_query:
        assert ours.per_query[str(metric.measure)][metric.query_id] == metric.value
    for measure, mean in direct.aggregated.items():
        assert ours.mean[str(measure)] == pytest.approx(mean, abs=1e-12)
    assert evaluate(read_run(tmp_path / "run"), read_qrels(tmp_path / "qrels"), MEASURES) == ours


@given(run=tied_runs, qrels=some_qrels)
@in_tmp_path
def test_foreign_runs_as_trec_eval(tmp_path: Path, run, qrels) -> None:
    path = tmp_path / "foreign"
    path.write_text(
        "".join(
            f"{query} Q0 {document} 1 {score!r} tag\n"
            for query, found in run.items()
            for document, score in found.items()
        )
    )
    read = read_run(path)
    measure = ir_measures.nDCG @ 3
    for metric in ir_measures.iter_calc([measure], qrels, ir_measures.read_trec_run(str(path))):
        ours = evaluate(read, qrels, ["nDCG@3"])
        assert ours.per_query["nDCG@3"][metric.query_id] == metric.value


ids = st.text(
    st.characters(min_codepoint=33, exclude_categories=("Cs", "Zs", "Zl", "Zp", "Cc")), min_size=1
) | st.sampled_from(["10", "9", "A", "a", "a-1", "\U0001f600", "\uffee", "\u00e9", "e\u0301"])
grades = st.integers(-3, 3)


@given(
    judged=st.lists(st.dictionaries(ids, grades, min_size=1, max_size=6), min_size=1, max_size=3),
    found=st.lists(st.dictionaries(ids, st.sampled_from([0.0, 1.0, 2.0]), max_size=6), max_size=3),
)
@in_tmp_path
def test_any_ids_and_negative_grades(tmp_path, judged, found) -> None:
    # trec_eval crashes, or reads what it did not write, where a query's highest grade is negative.
    qrels = {f"q{at}": {"top": 0, **each} for at, each in enumerate(judged)}
    path = tmp_path / "run"
    path.write_text(
        "".join(
            f"q{at} Q0 {document} 1 {score!r} tag\n"
            for at, each in enumerate(found)
            for document, score in each.items()
        ),
        encoding="utf-8",
    )
    names = [*MEASURES, "Bpref", "infAP", "Judged@3", "RR@3", "Compat(p=0.9)", "SetF", "NumRet"]
    names.append("nDCG(gains={1:5, 3:2})@10")
    ours = evaluate(read_run(path), qrels, names)
    for name in names:
        measure = ir_measures.parse_measure(name)
        run = {f"q{at}": each for at, each in enumerate(found) if each}
        for metric in ir_measures.iter_calc([measure], qrels, run):
            # Measures in Python, not trec_eval's, break ties from the lowest id up.
            if len({*run.get(metric.query_id, {}).values()}) == len(run.get(metric.query_id, {})):
                assert ours.per_query[name][metric.query_id] == metric.value
        if name in MEASURES or name == "Bpref":
            for metric in ir_measures.iter_calc(
                [measure], qrels, ir_measures.read_trec_run(str(path))
            ):
                assert ours.per_query[name][metric.query_id] == metric.value


@NEEDS_FORK
@IGNORES_FORKS
@pytest.mark.parametrize(
    ("run", "qrels", "measure", "mean"),
    [
        # The first query makes room for counters, the second's would stand before them.
        ({"q": {"a": 1.0}, "r": {"a": 1.0}}, {"q": {"a": 1}, "r": {"a": -2}}, "nDCG@10", 0.5),
        ({"q": {"a": 1.0}, "r": {"a": 1.0}}, {"q": {"a": 1}, "r": {"a": -(2**31)}}, "AP", 0.5),
        ({"q": {"a": 1.0, "b": 2.0}}, {"q": {"a": -1}}, "NumRet", 2.0),
        ({"q": {"\ud800": 1.0}}, {"q": {"\ud800": 1}}, "RR", 1.0),
        ({"q": {"a\0b": 1.0}}, {"q": {"a\0c": 1}}, "RR", 0.0),
        ({"q": {"a\0b": 2.0, "a\0c": 1.0}}, {"q": {"a\0c": 1}}, "RR", 0.5),
        ({"q": {"": 2.0, "a b": 1.0}}, {"q": {"a b": 1}}, "RR", 0.5),
        ({"q": {"a": 1.0}}, {"q": {"a": 10_000_000}}, "nDCG@10", 1.0),
        ({"q": {"a": 1.0}}, {"q": {"a": 1}}, "Bpref(rel=2147483647)", 0.0),
    ],
)
def test_ids_and_grades_that_break_trec_eval(run, qrels, measure, mean) -> None:
    """In a process of its own, as trec_eval itself crashes or errs on these."""
    assert ended_well(run_child(lambda: evaluate(run, qrels, [measure]).mean[measure] == mean))


needs_perl = pytest.mark.skipif(
    shutil.which("perl") is None, reason="ERR is computed by a program in Perl"
)


@needs_perl
def test_document_ids_do_not_matter() -> None:
    plain = evaluate({"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "b": 3}}, ["ERR@10"])
    odd = evaluate({"q": {"a x": 2.0, "": 1.0}}, {"q": {"a x": 1, "": 3}}, ["ERR@10"])
    assert plain == odd


def test_every_judged_query_counts() -> None:
    run = {"q1": {"c": 2.0, "a": 1.0}, "q3": {"z": 1.0}, "other": {"a": 1.0}}
    result = evaluate(run, QRELS, ["RR"])
    assert result.per_query == {"RR": {"q1": 1.0, "q2": 0.0, "q3": 0.0}}
    assert list(result.per_query["RR"]) == list(QRELS)
    assert result.mean == {"RR": 1 / 3}


def test_ties_keep_mapping_order() -> None:
    for measure in ("RR", "RR@5", "P@1", "Success@1"):  # trec_eval's code and MS MARCO's
        for first, second, value in (("a", "b", 1.0), ("b", "a", 0.5 if "RR" in measure else 0.0)):
            run = {"q": {first: 1.0, second: 1.0}}
            assert evaluate(run, {"q": {"a": 1, "b": 0}}, [measure]).mean[measure] == value


def test_requested_names() -> None:
    run = {"q1": {"a": 1.0}}
    assert set(evaluate(run, QRELS).mean) == {"nDCG@10", "RR", "R@100"}
    names = ["MRR@10", "MAP", "IPrec@0.5", "NumRet"]
    assert [*evaluate(run, QRELS, names).mean] == names


@needs_perl
def test_query_ids_do_not_matter() -> None:
    run = {"q1": {"c": 2.0, "a": 1.0}, "q2": {"b": 1.0}, "q3": {"z": 1.0}}
    for one, two, three in (("q-1", "r-1", "9"), ("what, now", "7", "x-7")):
        names = {"q1": one, "q2": two, "q3": three}
        measured = evaluate(
            {names[query]: found for query, found in run.items()},
            {names[query]: judged for query, judged in QRELS.items()},
            ["ERR@10", "nDCG(dcg='exp-log2')@10"],
        )
        assert {*measured.per_query["ERR@10"]} == {one, two, three}
        # c has grade 1 of 4, a after it grade 2: (2¹-1)/2⁴ + (1 - (2¹-1)/2⁴) · (2²-1)/2⁴ / 2
        assert measured.per_query["ERR@10"][one] == pytest.approx(
            1 / 16 + 15 / 16 * 3 / 32, abs=1e-5
        )
        assert measured.mean["ERR@10"] == pytest.approx(0.15039 / 3, abs=1e-5)


@pytest.mark.parametrize("measure", ["Judged@10", "Compat(p=0.9)", "nDCG@99999999"])
def test_empty_results_count_as_zero(measure: str) -> None:
    result = evaluate({"q1": {"a": 1.0}, "q2": {}}, QRELS, [measure])
    assert result.per_query[measure]["q2"] == 0.0
    assert math.isfinite(result.mean[measure])


@pytest.mark.parametrize(
    ("measure", "problem"),
    [
        ("nDGC@10", "is unknown; did you mean 'nDCG@10'"),
        ("ndgc@10", "is unknown; did you mean 'nDCG@10'?"),
        ("ndgc10", "is unknown; did you mean 'nDCG@10'?"),
        ("nDCG10", "is unknown; did you mean 'nDCG@10'?"),
        ("ndcg_5", "is unknown; did you mean 'nDCG@5'?"),
        ("", "cannot be parsed"),
        ("nDCG@0", "the cutoff must be 1 to"),
        ("nDCG(cutoff=0)", "the cutoff must be 1 to"),
        ("R@100000000000000000000", "the cutoff must be 1 to"),
        ("P", "'cutoff' is required"),
        ("__import__('os')", "cannot be parsed"),
        ("AP(rel=0)", "cannot be computed"),
        ("nDCG(gains={1:99999999999})@10", "a gain must be -2147483648 to 10000000, not 999"),
        ("nDCG(gains={1:1.5})@10", "a gain must be a whole number, not 1.5"),
        ("RBP", "cannot be computed: Unsupported measures"),
        (7, "the name must be a string"),
    ],
)
def test_wrong_measures(measure, problem: str) -> None:
    with pytest.raises(MeasureError) as caught:
        evaluate({"q1": {"a": 1.0}}, QRELS, [measure])
    assert problem in str(caught.value)
    assert repr(str(measure)) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (({}, {}), "qrels: must hold at least one query"),
        (({}, QRELS, "RR"), "give a sequence of names"),
        (({"q1": {"a": math.nan}}, QRELS), r"run\['q1'\]: document 'a': its score is not finite"),
        (({"q1": {7: 1.0}}, QRELS), "query 'q1': the id of a document must be a string, not 7"),
        (({}, {"q": {"a": 1, "b": 1.5}}), r"qrels\['q'\]\['b'\]: the relevance must be a whole"),
    ],
)
def test_arguments_are_checked(arguments, problem) -> None:
    with pytest.raises(InputError, match=problem):
        evaluate(*arguments)


def test_ranking_to_run() -> None:
    candidates = [Candidate(text, name) for text, name in (("x", "z"), ("owl", "a"), ("x", "m"))]
    ranking = Reranker.from_preset("lexical", depth=2).rerank("owl", candidates)
    assert [item.final_score is None for item in ranking] == [False, False, True]
    run = ranking_to_run({"q": ranking, "none": Reranker.from_preset("lexical").rerank("", [])})
    assert run == {"q": {"a": 3.0, "z": 2.0, "m": 1.0}, "none": {}}


def test_repeated_ids_count_once() -> None:
    run = ranking_to_run({"q": [Candidate("x", "a"), Candidate("y", "b"), Candidate("z", "a")]})
    assert run == {"q": {"a": 3.0, "b": 2.0}}


def test_runs_need_ids() -> None:
    with pytest.raises(InputError, match=r"rankings\['q'\]\[1\]\.id: a run needs ids"):
        ranking_to_run({"q": [Candidate("x", "a"), Candidate("y")]})


@pytest.mark.parametrize(
    ("judged", "ranked", "value"),
    [
        ({"a.md": 1}, "b.md#1 a.md#7 a.md#1 c.md#1", 1 / 2),
        ({"a.md": 1, "c.md": 1}, "a.md#1 a.md#2 c.md#1", 1),  # a.md#2 takes no rank
        ({"a.md": 1, "a.md#2": 0}, "a.md#2 a.md#1", 1 / 2),
        ({"a.md": 1}, "a.md#x a.md", 1 / 2),  # no passage of a file
        ({"a.md#1": 1}, "a.md a.md#2 a.md#1", 1 / 3),
    ],
)
def test_a_judged_file_counts_once_at_its_first_passage(judged, ranked, value) -> None:
    names = ranked.split()
    run = {"q": {name: float(len(names) - rank) for rank, name in enumerate(names)}}
    assert evaluate(run, {"q": judged}, ["AP"]).mean["AP"] == pytest.approx(value)
