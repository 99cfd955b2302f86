"""Pools, grades by a language model, and the folder that is written."""

import json
import re

import pytest

from reports import without
from secondpass import Candidate, Reranker
from secondpass.errors import ConfigurationError, InputError
from secondpass.formats.errors import FormatError
from secondpass.llms import Prices
from secondpass.llms.function import CallableLLM
from secondpass_evaluation import Journal, compare, judge, load_suite, write_qrels

CORPUS = [
    {"id": f"d{number}", "text": f"{word} in garden {number}"}
    for number, word in enumerate(["pears", "plums", "apples", "cherries"] * 5)
]
QUERIES = {f"q{number}": f"pears garden {number}" for number in range(12)}
_LABEL = re.compile(r'<doc id="?([^">\s]+)"?>([^<]*)')


class Model:
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
    return judge(QUERIES, model or Model(), **settings)


def test_every_pooled_document_is_graded_by_umbrelas_scale():
    model = Model()
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


def test_batches_take_fewer_calls_and_give_the_same_grades():
    model = Model()
    assert judged(model, batch_size=3).qrels == judged().qrels
    assert len(model.prompts) == len(QUERIES)


def test_a_smaller_sample_is_the_beginning_of_a_larger_one():
    small, large = judged(sample=4), judged(sample=9)
    assert small.judged_by.order == large.judged_by.order[:4]
    assert small.judged_by.sampled_from == 12
    assert {*judged(sample=4, seed=1).qrels} != {*small.qrels}


def test_added_queries_do_not_change_the_order():
    more = {**QUERIES, "new": "plums"}
    options = {"corpus": CORPUS, "first_stages": ["lexical"], "depth": 1}
    order = [query for query in judge(more, Model(), **options).judged_by.order if query != "new"]
    assert order == list(judge(QUERIES, Model(), **options).judged_by.order)


def test_candidates_of_a_first_stage_need_no_corpus():
    found = judge({"q": "pears"}, Model(), candidates={"q": CORPUS[:4]}, depth=2)
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


def test_of_a_reranker_its_language_model_is_asked():
    model = Model()
    reranker = Reranker({"type": "listwise", "llm": model})
    assert judged(reranker).judged_by.model == judged(model).judged_by.model


def test_the_folder_is_a_marked_suite(tmp_path):
    found = judged()
    assert {path.name for path in tmp_path.iterdir()} < {*map(_name, found.write(tmp_path))}
    suite = load_suite(tmp_path, corpus=[Candidate(one["text"], one["id"]) for one in CORPUS])
    assert suite.judged_by == found.judged_by
    assert suite.qrels == found.qrels
    assert suite.notes[0] == found.judged_by.note
    assert "not by people: the figures stand on its grades alone" in suite.notes[0]
    assert suite.first(3).judged_by is suite.judged_by


def test_judgements_of_people_are_not_overwritten(tmp_path):
    found = judged()
    (tmp_path / "qrels.txt").write_text("q 0 d 1\n")
    with pytest.raises(InputError, match=r"has qrels\.txt, which is not marked as a model's"):
        found.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["qrels.txt"]


def test_lone_surrogates_do_not_lose_what_was_paid_for(tmp_path):
    options = {"corpus": CORPUS, "first_stages": ["lexical"]}
    judge({"q": "pears \ud800"}, Model(), **options).write(tmp_path)
    assert "pears ?" in (tmp_path / "queries.jsonl").read_text(encoding="utf-8")


def test_unwritable_ids_fail_before_the_first_call():
    model = Model()
    with pytest.raises(FormatError, match="document id 'd 1' has white space"):
        judge({"q": "pears"}, model, candidates={"q": [{"id": "d 1", "text": "pears"}]})
    assert not model.prompts


def _name(path):
    return path.rpartition("/")[2]


def test_comparisons_are_corrected_by_a_person(tmp_path):
    found = judged()
    found.write(tmp_path)
    corpus = [Candidate(one["text"], one["id"]) for one in CORPUS]
    for count, corrected in ((5, False), (8, True)):
        people = {
            query: {document: max(0, grade - 1) for document, grade in found.qrels[query].items()}
            for query in found.judged_by.order[:count]
        }
        write_qrels(tmp_path / "qrels.people.txt", people)
        suite = load_suite(tmp_path, corpus=corpus)
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
    corpus = [Candidate(one["text"], one["id"]) for one in CORPUS]
    suite = load_suite(tmp_path / "suite", corpus=corpus)
    with without("matplotlib"):
        written = compare("lexical", suite, first_stages=["lexical"]).write(tmp_path / "report")
    assert str(tmp_path / "report" / "qrels.judged-by.json") in written
    parts = {"queries": tmp_path / "suite" / "queries.jsonl", "corpus": corpus}
    again = load_suite(**parts, qrels=tmp_path / "report" / "qrels.trec")
    assert again.judged_by == found.judged_by
    people = compare("lexical", load_suite_of_people(), first_stages=["lexical"])
    with without("matplotlib"):
        people.write(tmp_path / "report")
    assert not (tmp_path / "report" / "qrels.judged-by.json").exists()


def test_judgements_of_people_are_not_marked():
    suite = load_suite_of_people()
    assert suite.judged_by is None
    assert "judged_by" not in compare("lexical", suite, first_stages=["lexical"]).to_dict()


def load_suite_of_people():
    from secondpass_evaluation import make_suite

    return make_suite("people", {"q0": "pears"}, {"q0": {"d0": 1}}, corpus=CORPUS)


def test_a_suite_with_a_damaged_mark_is_an_error(tmp_path):
    judged().write(tmp_path)
    (tmp_path / "qrels.judged-by.json").write_text("[]")
    with pytest.raises(FormatError, match=r"qrels\.judged-by\.json"):
        load_suite(tmp_path, corpus=[Candidate(one["text"], one["id"]) for one in CORPUS])


def test_a_budget_holds_without_reported_usage():
    found = judged(CallableLLM(Model(), prices=Prices(input=1, output=1)), budget=1e-9)
    assert found.cost is None
    assert found.judged_by.queries == 1
    assert "was spent after 1 of 12 queries" in found.stopped


def test_documents_without_a_usable_grade_are_counted():
    class Half(Model):
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
        ({"depth": 0}, "depth"),
        ({"sample": 0}, "sample"),
        ({"budget": -1}, "budget: must be a number above 0"),
        ({"budget": 1}, "budget: the language model has no prices"),
        ({"first_stages": ["given"]}, "given: the suite has no candidates"),
        ({"model": Model("no")}, "nothing was graded; issues: "),
        ({"corpus": []}, "."),
        ({"candidates": ["d1"]}, "candidates: must be a mapping, not a list"),
    ],
    ids=["no corpus", "depth", "sample", "budget", "prices", "stage", "no grades", "empty", "list"],
)
def test_what_cannot_be_judged(options, message):
    with pytest.raises(InputError, match=message):
        judged(**options)


def test_a_reranker_without_a_language_model_is_refused():
    with pytest.raises(ConfigurationError, match="lexical asks no language model"):
        judged("lexical")


def test_no_text_is_in_the_mark_or_in_errors():
    found = judged()
    assert "garden" not in repr(found)
    assert "garden" not in repr(found.judged_by)
    with pytest.raises(InputError) as error:
        judged(Model("secret garden"))
    assert "garden" not in str(error.value)
