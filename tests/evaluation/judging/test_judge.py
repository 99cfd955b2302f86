"""Pools, grades by a language model, and the folder that is written."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Model
from reports import without
from secondpass import Candidate, Reranker
from secondpass.errors import ConfigurationError, InputError
from secondpass.formats.errors import FormatError
from secondpass.limits import Limits, Prices
from secondpass.llms.function import CallableLLM
from secondpass.strategies.graded import Graded
from secondpass_evaluation import Journal, compare, judge, load_suite, make_suite, write_qrels
from secondpass_evaluation.judging.folder import sampled
from secondpass_evaluation.judging.grading import GRADES, grading_reranker

CORPUS = [
    Candidate(f"{word} in garden {number}", f"d{number}")
    for number, word in enumerate(["pears", "plums", "apples", "cherries"] * 5)
]
QUERIES = {f"q{number}": f"pears garden {number}" for number in range(12)}
_LABEL = re.compile(r'<doc id="?([^">\s]+)"?>([^<]*)')


class Counting:
    """Grades a document by the number in its text; counts how often it is asked."""

    name = "counting"
    cache_key = "counting"

    def __init__(self, reply=None):
        self.prompts = []
        self.reply = reply

    def __call__(self, messages):
        prompt = messages[-1]["content"]
        self.prompts.append(messages[0]["content"] + prompt)
        if self.reply is not None:
            return self.reply
        grades = {label: len(text) % 4 for label, text in _LABEL.findall(prompt)}
        return json.dumps(grades)


def judged(model=None, **options):
    settings = {"corpus": CORPUS, "first_stages": ["lexical"], "depth": 3, **options}
    return judge(QUERIES, model or Counting(), **settings)


def test_every_pooled_document_is_graded_by_umbrelas_scale():
    model = Counting()
    found = judged(model, pool="lexical")
    assert found.qrels.keys() == QUERIES.keys()
    for query, grades in found.qrels.items():
        assert grades.keys() == {item.id for item in found.pools[query]}
        texts = {item.id: item.text for item in found.pools[query]}
        assert grades == {document: len(texts[document]) % 4 for document in grades}
    assert len(model.prompts) == found.calls == found.judged_by.documents
    assert "from 0 to 3" in model.prompts[0]
    assert found.judged_by.pools == ("lexical", "lexical+lexical")
    assert sum(found.judged_by.grades.values()) == found.judged_by.documents


def test_candidates_of_a_first_stage_need_no_corpus():
    found = judge({"q": "pears"}, Counting(), candidates={"q": CORPUS[:4]}, depth=2)
    assert found.qrels["q"].keys() == {"d0", "d1"}
    assert found.judged_by.pools == ("given",)


def test_a_query_whose_questions_failed_is_not_in_the_journal(tmp_path):
    llm = {"type": "openai", "model": "m", "api_key": "k", "base_url": "http://127.0.0.1:9"}
    with Journal(tmp_path / "j.jsonl") as journal, pytest.raises(InputError, match="nothing was"):
        judge(
            {"q": "pears"},
            {"method": {"type": "graded", "llm": llm}, "limits": {"retries": 0}},
            corpus=CORPUS,
            first_stages=["lexical"],
            journal=journal,
        )
    assert not (tmp_path / "j.jsonl").exists()


def test_the_folder_is_a_marked_suite(tmp_path):
    found = judged()
    written = found.write(tmp_path)
    assert sorted(map(str, tmp_path.iterdir())) == sorted(written)
    suite = load_suite(tmp_path, corpus=CORPUS)
    assert suite.judged_by == found.judged_by
    assert suite.qrels == found.qrels
    assert suite.notes[0] == found.judged_by.note
    assert "not by people: the figures stand on its grades alone" in suite.notes[0]
    assert suite.first(3).judged_by is suite.judged_by


def test_unwritable_ids_fail_before_the_first_call():
    model = Counting()
    with pytest.raises(FormatError, match="document id 'd 1' has white space"):
        judge({"q": "pears"}, model, candidates={"q": [{"id": "d 1", "text": "pears"}]})
    assert not model.prompts


def test_comparisons_are_corrected_by_a_person(tmp_path):
    found = judged()
    found.write(tmp_path)
    for count, corrected in ((5, False), (8, True)):
        people = {
            query: {document: max(0, grade - 1) for document, grade in found.qrels[query].items()}
            for query in found.judged_by.order[:count]
        }
        write_qrels(tmp_path / "qrels.people.txt", people)
        suite = load_suite(tmp_path, corpus=CORPUS)
        assert len(suite.judged_by.people) == count
        comparison = compare("lexical", suite, first_stages=["lexical"], measures=["nDCG@3", "P@3"])
        assert bool(comparison.corrected) is corrected
        assert ("corrected difference" in comparison.to_markdown(details=False)) is corrected
        with without("matplotlib"):
            assert ("Corrected by a person" in comparison.to_html()) is corrected
        assert len(comparison.to_dict()["judged_by"]["grades"]) > 1
    rows = {(item.name, item.mean.measure): item for item in comparison.corrected}
    assert rows["lexical", "P@3"].mean.mean < rows["lexical", "P@3"].mean.uncorrected
    assert rows["lexical+lexical", "P@3"].base == "lexical"


def test_judgements_in_a_report_are_marked(tmp_path):
    found = judged()
    found.write(tmp_path / "suite")
    suite = load_suite(tmp_path / "suite", corpus=CORPUS)
    with without("matplotlib"):
        written = compare("lexical", suite, first_stages=["lexical"]).write(tmp_path / "report")
    assert str(tmp_path / "report" / "qrels.judged-by.json") in written
    parts = {"queries": tmp_path / "suite" / "queries.jsonl", "corpus": CORPUS}
    again = load_suite(**parts, qrels=tmp_path / "report" / "qrels.trec")
    assert again.judged_by == found.judged_by
    people = make_suite("people", {"q0": "pears"}, {"q0": {"d0": 1}}, corpus=CORPUS)
    with without("matplotlib"):
        compare("lexical", people, first_stages=["lexical"]).write(tmp_path / "report")
    assert not (tmp_path / "report" / "qrels.judged-by.json").exists()


def test_a_budget_holds_without_reported_usage():
    found = judged(CallableLLM(Counting(), prices=Prices(input=1, output=1)), budget=1e-9)
    assert found.cost is None
    assert found.judged_by.queries == 1
    assert "was spent after 1 of 12 queries" in found.stopped


def test_documents_without_a_usable_grade_are_counted():
    class Half(Counting):
        def __call__(self, messages):
            labels = _LABEL.findall(messages[-1]["content"])
            return json.dumps({label: 1 for label, _ in labels[:2]})

    found = judged(Half(), batch_size=3)
    assert found.judged_by.ungraded == len(QUERIES)
    assert all(len(grades) == 2 for grades in found.qrels.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corpus": None}, "needs a corpus, or the candidates"),
        ({"budget": -1}, "budget: must be a number above 0"),
        ({"budget": 1}, "budget: the language model has no prices"),
        ({"model": Counting("no")}, "nothing was graded; issues: "),
        ({"corpus": []}, "."),
        ({"candidates": ["d1"]}, "candidates: must be a mapping, not a list"),
    ],
    ids=["no corpus", "budget", "prices", "no grades", "empty", "list"],
)
def test_what_cannot_be_judged(options, message):
    with pytest.raises(InputError, match=message):
        judged(**options)


def test_no_text_is_in_the_mark_or_in_errors():
    found = judged()
    assert "garden" not in repr(found)
    assert "garden" not in repr(found.judged_by)
    with pytest.raises(InputError) as error:
        judged(Counting("secret garden"))
    assert "garden" not in str(error.value)


LLM = {"type": "openai", "model": "m", "api_key": "k", "base_url": "http://127.0.0.1:9"}
OTHER = {**LLM, "model": "other"}


@pytest.mark.parametrize(
    ("grader", "name", "owned"),
    [
        (LLM, "m", True),
        ({"method": {"type": "listwise", "llm": LLM}}, "m", True),
        ({"method": {"type": "cascade", "stages": [
            {"type": "listwise", "llm": OTHER}, {"type": "graded", "llm": LLM}]}}, "m", True),
    ],
    ids=["language model", "configuration", "cascade"],
)  # fmt: skip
def test_the_language_model_of_a_configuration_is_asked(grader, name, owned):
    reranker, llm, is_owned = grading_reranker(grader)
    assert (llm.model, is_owned) == (name, owned)
    reranker.close()


def test_objects_stay_their_owners():
    model = Model()
    for grader in (model, Reranker({"type": "listwise", "llm": model}), lambda messages: "{}"):
        assert not grading_reranker(grader)[2]


def test_every_candidate_gets_a_whole_grade():
    model = Model()
    reranker, *_ = grading_reranker(model, batch_size=2)
    assert isinstance(reranker.method, Graded)
    assert (reranker.depth, reranker.method.batch_size) == (None, 2)
    reranker.rerank("wombats", ["1 wombat", "3 wombats", "2 wombats"])
    first, _ = model.prompts
    text = first.system + first.turns[0].text
    for grade, meaning in GRADES.items():
        assert f"{grade}: it {meaning}." in text


def test_of_a_reranker_what_bounds_no_ranking_is_taken():
    kept = {"concurrency": 3, "retries": 4, "repair": 0}
    bounds = {"deadline": 1, "calls": 3, "tokens": 3}
    own = Reranker({"type": "listwise", "llm": Model()}, limits={**kept, **bounds})
    reranker, *_ = grading_reranker(own)
    assert (reranker.limits, reranker.render) == (Limits(**kept), own.render)


@pytest.mark.parametrize("grader", ["lexical", {"method": "lexical"}])
def test_without_a_language_model(grader):
    with pytest.raises(ConfigurationError, match="lexical asks no language model"):
        grading_reranker(grader)


MAPPINGS = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=8)


@given(MAPPINGS, st.integers(0, 9), st.integers(0, 3))
def test_a_smaller_sample_begins_a_larger_one(queries, count, seed):
    whole = sampled(queries, None, seed)
    assert whole == queries
    assert [*sampled(queries, count, seed).items()] == [*whole.items()][:count]


@given(MAPPINGS, MAPPINGS, st.integers(0, 3))
def test_queries_that_are_added_change_no_order(queries, more, seed):
    both = {**more, **queries}
    order = [query for query in sampled(both, None, seed) if query in queries]
    assert order == [*sampled(queries, None, seed)]
    assert [*sampled(dict(reversed(both.items())), None, seed)] == [*sampled(both, None, seed)]


def test_another_seed_is_another_order():
    queries = {str(number): "owl" for number in range(9)}
    assert len({tuple(sampled(queries, None, seed)) for seed in range(5)}) == 5
