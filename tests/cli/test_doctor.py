"""``secondpass doctor``: what is installed, set, reachable and loadable."""

import json
from functools import partial
from importlib import metadata

import pytest

from checkpoint_folders import without_head
from damaged_folders import write_damaged
from fake_provider import FakeProvider
from family_models import write_causal_family
from secondpass import MissingExtraError
from secondpass.scorers.checks import known_answers
from secondpass.scorers.inspection import PASSAGE, QUERY
from terminals import on_a_terminal

WIDE = {"COLUMNS": "300", "NO_COLOR": "1"}
DOUBT = known_answers.doubt  # as tests find it, it has no doubts: see conftest.py


def test_extras_are_told_with_their_versions(secondpass):
    told = json.loads(secondpass("doctor", "--json").out)
    assert told["extras"]["cli"]["installed"]
    assert told["extras"]["cli"]["packages"]["typer"] == metadata.version("typer")
    assert "dev" not in told["extras"]
    assert set(told) == {"secondpass", "python", "platform", "extras"}
    assert json.loads(secondpass("doctor").out) == told
    assert f"typer {metadata.version('typer')}" in on_a_terminal("doctor", env=WIDE)


def test_an_extra_that_is_missing_is_told_with_the_command(secondpass, monkeypatch):
    real = metadata.version

    def version(name):
        if name == "tokenizers":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    assert secondpass("doctor").code == 0  # nothing was asked of it
    shown = on_a_terminal("doctor", env=WIDE)
    assert MissingExtraError("embedded", "it").command in shown
    assert "tokenizers is missing" in shown


def test_the_answer_comes_first_and_extras_last(secondpass, tmp_path):
    folder = str(tmp_path)
    for call, key, first in (
        (["doctor", folder], "model", "model: "),
        (["doctor", "-p", "lexical"], "reranker", "runs: "),
        (["doctor", "-p", "lexical", "--network"], "reranker", "runs: "),
    ):
        found = json.loads(secondpass(*call).out)
        order = [*found]
        assert (order[0], order[-1]) == (key, "extras")
        lines = [line for line in on_a_terminal(*call, columns=300).splitlines() if line]
        assert lines[0].startswith(first)
        assert lines[-1].startswith([*found["extras"]][-1])


def test_a_preset_is_made_loaded_and_run(secondpass):
    told = secondpass("doctor", "--preset", "embedded", "--json")
    found = json.loads(told.out)["reranker"]
    assert (told.code, found["runs"], found["report"]["status"]) == (0, True, "ok")
    assert found["order"] == ["banana", "moon"]
    assert "runs: status ok, method lexical" in on_a_terminal("doctor", "-p", "lexical", env=WIDE)


def test_a_cache_that_cannot_be_used_is_told(secondpass, write, tmp_path):
    """The ranking of the command does not use it."""
    with FakeProvider() as provider:
        method = f"method: {{type: endpoint, api: tei, base_url: '{provider.base_url('tei')}'}}"
        config = write("c.yaml", f"{method}\ncache: {tmp_path}\n")
        told = secondpass("doctor", "--config", config, "--json")
        shown = on_a_terminal("doctor", "--config", config, env=WIDE)
        good = write("good.yaml", f"{method}\ncache: {tmp_path / 'answers'}\n")
        other = secondpass("doctor", "--config", good, "--json")
    found = json.loads(told.out)["reranker"]
    assert (told.code, found["runs"]) == (0, True)
    problem = f"{str(tmp_path)!r} cannot be a response cache: it is a folder; it was not touched"
    assert found["cache"] == problem
    assert f"response cache: {problem}" in shown
    assert json.loads(other.out)["reranker"]["cache"] == "can be used"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--preset", "embeded"], "no preset is named 'embeded'; did you mean 'embedded'"),
        (["--config", "gone.yaml"], "there is no such file"),
        (["--preset", "lexical", "--set", "method.k1=-1"], "k1"),
        (["--config", "closed.yaml"], "the ranking is unchanged"),
        (["--config", "model.yaml"], "cannot be loaded"),
        (["--config", "model.yaml", "--set", "fallback=[lexical]"], "the ranking is degraded"),
    ],
)
def test_what_cannot_run_is_told_and_exits_with_1(
    secondpass, write, tmp_path, monkeypatch, arguments, reason
):
    monkeypatch.chdir(tmp_path)
    closed = "method: {type: endpoint, api: tei, base_url: 'http://127.0.0.1:9'}"
    write("closed.yaml", f"{closed}\nlimits: {{retries: 0}}")
    write("model.yaml", "method: {type: cross_encoder, model: ./no-model}")
    told = secondpass("doctor", *arguments, "--json")
    found = json.loads(told.out)["reranker"]
    assert (told.code, found["runs"]) == (1, False)
    assert reason in found["reason"]
    assert told.err == f"secondpass: {found['reason']}\n"
    if "closed.yaml" in arguments:
        assert f"cannot run: {reason}" in on_a_terminal("doctor", *arguments, env=WIDE)


def test_a_stored_answer_does_not_stand_for_the_service(secondpass, provider, graded, tmp_path):
    call = ["doctor", "--config", graded, "--set", f"cache={tmp_path / 'answers.sqlite'}"]
    for number in (1, 2):
        assert (secondpass(*call).code, provider.calls) == (0, number)


@pytest.mark.long  # imports torch; `tests/scorers` has what is wrong with a model
def test_wrong_models_are_told(secondpass, tmp_path, monkeypatch):
    """A model that lacks weights, one that knows no answer, and one that is inverted."""
    monkeypatch.setattr(known_answers, "doubt", DOUBT)
    for write, reason in (
        (without_head, "classifier.weight"),
        (partial(write_damaged, name="everything random"), "model_doubtful"),
        (partial(write_damaged, name="head negated"), "its scores mean the opposite"),
    ):
        folder = write(tmp_path / reason.replace(" ", "-"))
        model = json.dumps({"type": "cross_encoder", "model": str(folder)})
        told = secondpass("doctor", "--json", "--set", f"method={model}")
        assert told.code == 1
        assert reason in json.loads(told.out)["reranker"]["reason"]


def test_a_doubtful_model_is_told_first_and_fails_unless_its_scores_are_known(
    secondpass, tmp_path, monkeypatch
):
    monkeypatch.setattr(known_answers, "doubt", DOUBT)
    folder = str(write_damaged(tmp_path / "model", "everything random"))
    told = secondpass("doctor", folder, "--json")
    found = json.loads(told.out)["model"]
    assert (told.code, found["runs"]) == (1, True)
    assert told.err == f"secondpass: {folder} is doubtful: {found['doubt']}\n"
    assert found["doubt"].startswith("of six questions with an obvious answer, the model ranks ")
    shown = on_a_terminal("doctor", folder, columns=400, env={"NO_COLOR": "1"})
    assert shown.splitlines()[0].startswith(f"model: {folder} is doubtful: of six questions")
    assert shown.count("doubtful:") == 1
    known = tmp_path / "known.jsonl"
    for change, code in ((0.0, 0), (1.0, 1)):
        line = {"query": QUERY, "text": PASSAGE, "score": found["score"] + change}
        known.write_text(json.dumps(line))
        told = secondpass("doctor", folder, "--against", str(known), "--json")
        assert (told.code, json.loads(told.out)["model"]["against"]["agrees"]) == (code, not code)
        assert ("its scores differ from the known ones" in told.err) == bool(code)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("lexical", "'lexical' is a preset, which is a whole reranker: use --preset lexical"),
        ("graded", "it is a method, use --set method.type=graded"),
        ("zeroentropy", "it is a rerank API, use --set method.type=endpoint"),
        ("openai", "it is a provider of language models, use --set method.type=graded"),
        ("embeded", "did you mean the preset 'embedded'? (doctor --preset embedded)"),
        ("gpt-4o", "if it is a language model, use --set method.type=graded"),
        ("of a/b.yaml", "if it is a configuration, use --config 'of a/b.yaml'"),
    ],
)
def test_names_of_something_else_say_what_to_type(secondpass, name, use):
    told = secondpass("doctor", name)
    assert (told.code, told.out) == (1, "")
    assert f"MODEL: {name!r} is no folder and no model at Hugging Face; {use}" in told.err


def test_a_folder_may_have_the_name_of_a_preset(secondpass, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tei").mkdir()
    found = json.loads(secondpass("doctor", "tei").out)["model"]
    assert (found["model"], found["runs"]) == ("tei", False)
    assert "config.json" in found["refused"]


@pytest.mark.long  # imports torch; `tests/scorers` has which models are recognised
def test_a_model_is_recognised_or_refused(secondpass, tmp_path):
    folder = str(write_causal_family(tmp_path / "mxbai-rerank-base-v2", "Qwen2"))
    told = secondpass("doctor", folder, "--json")
    found = json.loads(told.out)["model"]
    assert (told.code, found["family"], found["runs"]) == (0, "mxbai-rerank-v2", True)
    shown = on_a_terminal("doctor", folder, env=WIDE)
    assert "mxbai-rerank-v2: mxbai-rerank-v2" in shown
    assert "score: the logit of '1' minus the logit of '0' at the last token (logit)" in shown
    assert "a pair: <|im_start|>" in shown
    unknown = str(write_causal_family(tmp_path / "judge", "Qwen3"))
    told = secondpass("doctor", unknown, "--json")
    assert told.code == 1
    assert "fits no description" in json.loads(told.out)["model"]["refused"]
    set_ = secondpass("doctor", unknown, "--family", "qwen3-reranker", "--json")
    assert (set_.code, json.loads(set_.out)["model"]["family"]) == (0, "qwen3-reranker")
    assert "has no such name" in secondpass("doctor", unknown, "--family", "qwen4").err
    assert "needs a MODEL" in secondpass("doctor", "--family", "monot5").err
