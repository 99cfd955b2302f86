"""Code in a hint works when it is pasted, with a value in the place of each `…`."""

import re

import pytest
import yaml

from command_calls import called
from haystack_integrations.components.rankers.secondpass import parameters as haystack
from llama_index.postprocessor.secondpass import parameters as llama_index
from secondpass import Reranker, SecondPassError
from secondpass.settings import COMING_FROM, name_hints, parameters_of, registry
from secondpass.settings import parameter_hints as parameters
from secondpass.settings.name_hints import name_hint
from secondpass_evaluation.judging.grading import _language_model

ADDRESS = "http://127.0.0.1:9"
LLM = {"type": "openai", "model": "m", "base_url": ADDRESS}
OWN_API = {
    "url": ADDRESS,
    "path": "/rank",
    "request": {"query": "$query", "documents": "$documents"},
    "rows": "results",
    "score": "score",
}
OWN = {
    "model": "m",
    "api": OWN_API,
    "base_url": ADDRESS,
    "llm": LLM,
    "stages": ["lexical", "lexical"],
}
"""What stands for `…` in the setting of this name."""
NAMES = [
    *registry.names("methods"),
    *registry.names_in("rerank_apis"),
    *registry.names("llms"),
    *("BAAI/bge-reranker-v2-m3", "openai/gpt-4o", "llama3:8b", "claude-haiku-4-5"),
    *("azure/m", "rerank-v3.5", "jina-reranker-v3", "ms-marco-MiniLM-L-12-v2", "Rerank-v3.5"),
    *name_hints._ELSEWHERE,
]


@pytest.fixture(autouse=True)
def addresses(monkeypatch):
    """Presets of servers read their address from a variable."""
    for name in ("INFINITY", "LLAMA_CPP", "TEI", "VLLM", "DECISIONS"):
        monkeypatch.setenv(f"{name}_URL", ADDRESS)


def filled(settings):
    """Settings with values for `…`."""
    if not isinstance(settings, dict):
        return settings
    return {
        key: OWN[key] if value in ("…", ...) else filled(value) for key, value in settings.items()
    }


class Pasted:
    """Makes rerankers as a hint says."""

    from_preset = staticmethod(Reranker.from_preset)

    def __new__(cls, method):
        return Reranker(filled(method))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_another_kind(name):
    python, in_yaml = re.fullmatch(
        r"; .*use (Reranker.*\)), or '((?:method|preset): .*)' in a configuration",
        name_hint(name),
    ).groups()
    made = eval(python.replace("…", "..."), {"Reranker": Pasted})
    configured = Reranker.from_config(filled(yaml.safe_load(in_yaml)))
    assert configured.to_config() == made.to_config()


@pytest.mark.parametrize("name", NAMES)
def test_options_of_the_command(name):
    (use,) = re.findall(r" use (--.*)", name_hint(name, as_options=True))
    options = [
        f"{key}={OWN[key.rpartition('.')[2]]}" if value == "…" else f"{key}={value}".rstrip("=")
        for key, _, value in (option.partition("=") for option in use.split())
    ]
    told = called("plan", *options, "--candidates", "3", "--json")
    assert told.code == 0, told.err


def test_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rerank.yaml").write_text("method: lexical")
    for entry in (Reranker, Reranker.from_preset):
        with pytest.raises(SecondPassError) as caught:
            entry("rerank.yaml")
        (use,) = re.findall("use (Reranker.*)", str(caught.value))
        assert eval(use).to_config()["method"] == {"type": "lexical"}


@pytest.mark.parametrize("settings", [{"method": "lexical"}, {"preset": "lexical", "depth": 7}])
def test_a_whole_configuration(settings):
    with pytest.raises(SecondPassError) as caught:
        Reranker(settings)
    (use,) = re.findall(r"Reranker\.from_config\(…\)", str(caught.value))
    assert eval(use.replace("…", "settings")).method.name == "lexical"


def test_a_setting_of_a_reranker_that_is_ready():
    reranker = Reranker("lexical")
    with pytest.raises(AttributeError) as caught:
        reranker.depth = 3
    (use,) = re.findall(r"use (reranker\..*)", str(caught.value))
    assert eval(use.replace("…", "3"), {"reranker": reranker}).depth == 3


def test_candidates():
    reranker = Reranker("lexical")
    with pytest.raises(SecondPassError) as caught:
        reranker.rerank("owl", [("owl", 0.5)])
    (use,) = re.findall(r"{.*}", str(caught.value))
    candidate = eval(use.replace("…", "'owl'", 1).replace("…", "0.5"))
    assert reranker.rerank("owl", [candidate])[0].candidate.score == 0.5
    with pytest.raises(SecondPassError) as caught:
        reranker.rerank("owl", [{"title": "owl"}])
    (fields,) = re.findall(r"such as (\[.*\])", str(caught.value))
    reranker = Reranker("lexical", render={"fields": yaml.safe_load(fields)})
    assert reranker.rerank("owl", [{"title": "owl"}]).report.status == "ok"


FRAGMENTS = sorted(
    {
        found
        for table in (
            parameters.INSTEAD,
            haystack.INSTEAD,
            llama_index.INSTEAD,
            llama_index._INSTEAD_OF_KWARGS,
        )
        for instead in table.values()
        for text in [
            instead if isinstance(instead, str) else f"write {name_hints.in_words(instead)}"
        ]
        for found in re.findall(r"(?:write|to) ({.*})", text)
    }
)
VALUES = {
    **OWN,
    "deadline": 2,
    "max_tokens_per_doc": 128,
    "truncate": "NONE",
    "truncation": True,
    "truncation_direction": "right",
    "retries": 1,
    "options": {"a": 1},
    "prompt": "query: ",
    "instruction": "Prefer owls.",
    "cache_folder": "cache",
    "timeout": 3,
    "window": 5,
    "query_prefix": "query: ",
    "prefix": "passage: ",
    "slope": 2.0,
    "stride": 5,
    "concurrency": 2,
}
OPEN = {
    "'render': {…}": "'render': {'fields': ['text']}",
    "'type': 'diverse', …": "'type': 'diverse'",
    "'type': 'listwise', …": "'type': 'listwise'",
}
"""Mappings of which a hint shows the beginning."""
BASE = {
    "endpoint": {"type": "endpoint", "api": "tei", "base_url": ADDRESS},
    "listwise": {"type": "listwise", "llm": LLM},
    "cross_encoder": {"type": "cross_encoder"},
    "decisions": {"type": "decisions", "api": "systemone", "model": "m", "instructions": "?"},
}


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_settings_in_place_of_a_parameter_of_another_library(fragment):
    """They are part of a configuration whose method has what it requires."""
    code = fragment
    for beginning, whole in OPEN.items():
        code = code.replace(beginning, whole)
    code = re.sub(r"'(\w+)': …", lambda found: f"'{found[1]}': {VALUES[found[1]]!r}", code)
    settings = eval(code)
    method = settings.get("method", {"type": "cross_encoder"})
    Reranker.from_config({**settings, "method": {**BASE[method["type"]], **method}})


def test_a_configuration_that_can_judge():
    with pytest.raises(SecondPassError) as caught:
        _language_model(Reranker("lexical"))
    (use,) = re.findall(r"such as ({.*})", str(caught.value))
    assert _language_model(Reranker.from_config(filled(yaml.safe_load(use))))


FOREIGN = sorted(
    {
        *parameters.PATHS,
        *parameters.INSTEAD,
        "deadline",
        "threshold",
        "max_length",
        "timeout",
    }
    - parameters_of(Reranker).keys()
)
"""Names of other packages, and of settings that rerankers have in another place."""
CONFIGURED = ["embedded", "cross_encoder", {"type": "listwise", "llm": LLM}]
OF_FOREIGN = {
    **VALUES,
    "activation": "none",
    "api": "tei",
    "api_key_env": "A_KEY",
    "backend": "openvino",
    "config_kwargs": {"a": 1},
    "deadline": 2,
    "device": "cpu",
    "fields": ["text"],
    "max_length": 64,
    "model_kwargs": {"a": 1},
    "options": {"a": 1},
    "separator": " ",
    "query_suffix": "?",
    "suffix": ".",
    "token_env": "A_KEY",
    "temperature": 0.5,
    "tokenizer_kwargs": {"a": 1},
    "trust_remote_code": True,
}


def with_values(settings):
    """Settings with a value of its kind in the place of each `…`, and what a method requires."""
    if not isinstance(settings, dict):
        return settings
    filled_in = {
        key: OF_FOREIGN.get(key, 5) if value in ("…", ...) else with_values(value)
        for key, value in settings.items()
    }
    return {**BASE.get(settings.get("type"), {}), **filled_in}


@pytest.mark.parametrize("method", CONFIGURED, ids=["embedded", "cross_encoder", "listwise"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_parameter_of_another_package(name, method, monkeypatch):
    """What the hint says works in Python and in a configuration."""
    monkeypatch.setenv("A_KEY", "k")
    for make in (
        lambda: Reranker(method, **{name: 1}),
        lambda: Reranker.from_config({"method": method, name: 1}),
        lambda: Reranker.from_preset("lexical", method=method, **{name: 1}),
    ):
        with pytest.raises(SecondPassError) as caught:
            make()
        message = str(caught.value)
        if meant := re.search(r"did you mean '(\w+)'\?", message):
            assert meant[1] in parameters_of(Reranker)
            continue
        found = re.search(r"use (.*), or '(\w+: [^']*)' in a configuration(?:, or .*)?$", message)
        if found is None:
            assert re.search("; (leave it out|there is no|to rank by|write the kind)", message)
            continue
        python, in_yaml = found.groups()
        if python.startswith("Reranker("):
            made = Reranker(with_values(eval(python.removeprefix("Reranker").replace("…", "..."))))
        else:
            key, _, value = python.partition("=")
            made = Reranker("lexical", **{key: with_values(eval(value.replace("…", "...")))})
        ((key, value),) = yaml.safe_load(in_yaml).items()
        configured = Reranker.from_config({"method": "lexical", key: with_values(value)})
        assert configured.to_config() == made.to_config()


OF_PRESETS = [
    ("cohere", "model", "'model': …"),
    ("cohere", "timeout_s", "'timeout': …"),
    ("default", "model", "'model': …"),
    ("default", "device", "'device': …"),
    ("default", "cache_dir", "'cache_folder': …"),
    ("embedded", "store", "'store': …"),
    ("listwise_ids", "model", "'llm': {'model': …}"),
    ("listwise_ids", "temperature", "'llm': {'temperature': …}"),
    ("cohere", "api_key", "'api_key': …"),
]
"""Preset, name, and the setting of the preset's method that is meant."""


def test_a_setting_of_a_stage_of_a_preset():
    with pytest.raises(SecondPassError) as caught:
        Reranker.from_preset("cheap", model="m")
    (use,) = re.findall("write them all: use (Reranker.*)", str(caught.value))
    made = eval(use.replace("…", "'lexical', 'embedded'"))
    whole = Reranker.from_preset("cheap").to_config()
    assert {**made.to_config(), "method": None} == {**whole, "method": None}


@pytest.mark.parametrize(("preset", "name", "part"), OF_PRESETS)
def test_a_setting_of_the_method_of_a_preset(preset, name, part, tmp_path, monkeypatch):
    """What the hint says keeps the rest of the preset."""
    monkeypatch.setenv("A_KEY", "k")
    (tmp_path / "rerank.yaml").write_text(f"{{preset: {preset}, {name}: 1}}")
    values = {**OF_FOREIGN, "store": str(tmp_path / "store"), "api_key": "k"}
    whole = Reranker.from_preset(preset).to_config()
    makers = [
        lambda: Reranker.from_preset(preset, **{name: 1}),
        lambda: Reranker.from_config({"preset": preset, name: 1}),
        lambda: Reranker.from_config(tmp_path / "rerank.yaml"),
    ]
    for make in makers[: 2 if name == "api_key" else 3]:  # a file cannot hold a key at all
        with pytest.raises(SecondPassError) as caught:
            make()
        found = re.search(r"use (Reranker.*), or '(.*)' beside '(.*)' in a", str(caught.value))
        python, setting, beside = found.groups()
        assert part in python
        code = re.sub(r"'(\w+)': …", lambda found: f"'{found[1]}': {values[found[1]]!r}", python)
        made = eval(code, {"Reranker": Reranker})
        in_file = re.sub(r"(\w+): …", lambda found: f"{found[1]}: {values[found[1]]!r}", setting)
        configured = Reranker.from_config(yaml.safe_load(in_file) | yaml.safe_load(beside))
        for reranker in (made, configured):
            if "api_key" in code and reranker is made:
                assert reranker.limits == configured.limits
                continue
            config = reranker.to_config()
            assert {**config, "method": None, "depth": None} == {
                **whole,
                "method": None,
                "depth": None,
            }
            assert config["method"]["type"] == whole["method"]["type"]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (
            "device",
            "of the method 'cross_encoder', not of 'embedded': use Reranker({'type': "
            "'cross_encoder', 'device': …}), or",
        ),
        ("max_length", "of the method: use Reranker({'type': 'embedded', 'max_length': …}), or"),
        (
            "deadline",
            "of 'limits': use limits={'deadline': …}, or 'limits: {deadline: …}' in",
        ),
        ("threshold", "; did you mean 'floor'?"),
        ("top_n", "; did you mean 'top_k'?"),
        ("verbose", "; leave it out; the result has a report"),
        ("strickt", "; did you mean 'strict'?"),
        ("zzz", f"when; coming from another package: {COMING_FROM}"),
    ],
)
def test_the_hint_for_a_parameter_of_another_package(name, part):
    with pytest.raises(SecondPassError, match=re.escape(part)):
        Reranker("embedded", **{name: 1})


CALLS = [
    ("threshold", "did you mean 'floor'?"),
    ("top_n", "did you mean 'top_k'?"),
    ("k", "did you mean 'top_k'?"),
    ("device", "of the reranker: Reranker({'type': 'cross_encoder', 'device': …}); coming from"),
    ("retries", "of the reranker: Reranker(limits={'retries': …}); coming from"),
    ("timeout", "did you mean 'deadline', or 'timeout' of the method, {'type': 'endpoint', "),
    ("blend", "of the reranker: use reranker.changed(blend=…).rerank(…)"),
    ("method", "of the reranker: create another one"),
    ("fallback", "of the reranker: create another one"),
    ("temperature", "'graded', 'llm': {'type': 'openai', 'model': …, 'temperature': …}"),
    ("raise_on_error", "did you mean 'strict'?"),
    ("docs", "did you mean 'candidates'?"),
    ("doc_ids", "it is part of each candidate: [{'text': …, 'id': …}, …]"),
    ("metadata", "it is part of each candidate: [{'text': …, 'metadata': {…}}, …]"),
    ("queries", "use rerank_many([(query, candidates), …])"),
    ("normalize", "Reranker({'type': 'cross_encoder', 'activation': 'sigmoid'})"),
    ("apply_softmax", "leave it out; the model has one score"),
    ("zzz", "known are: candidates, context, deadline, "),
    ("zzz", "now, on_interim, order, "),
    ("return_documents", "leave it out; the result has the documents; coming from another package"),
    ("strikt", "did you mean 'strict'?"),
]


@pytest.mark.parametrize(("name", "part"), CALLS)
def test_a_keyword_of_a_call(name, part):
    with pytest.raises(TypeError, match=re.escape(part)) as caught:
        Reranker("lexical").rerank("owl", ["owl"], **{name: 1})
    for code in re.findall(r"Reranker\(({.*})\)", str(caught.value)):
        Reranker(with_values(eval(code.replace("…", "..."))))


ENDPOINT, EMBEDDED = BASE["endpoint"], {"type": "embedded"}
NESTED = [
    ({"type": "cross_encoder", "use_fp16": 1}, "method", "write 'precision': 'float16'"),
    ({"type": "cross_encoder", "normalize": 1}, "method", "write 'activation': 'sigmoid'"),
    ({"type": "cross_encoder", "num_labels": 1}, "method", "leave it out; the model has one score"),
    ({"type": "cross_encoder", "activation_fn": 1}, "method", "did you mean 'activation'?"),
    ({"type": "cross_encoder", "max_lenght": 1}, "method", "did you mean 'max_length'?"),
    ({"type": "embedded", "device": 1}, "method", "of the method 'cross_encoder', not of 'embedd"),
    ({"type": "embedded", "top_n": 1}, "method", "of the reranker: use top_k=…, or 'top_k: …' in"),
    (
        {"type": "embedded", "zzz": 1},
        "method",
        f"threads; coming from another package: {COMING_FROM}",
    ),
    ({**ENDPOINT, "max_tokens_per_doc": 1}, "method", "write 'options': {'max_tokens_per_doc': …}"),
    (
        {**ENDPOINT, "max_retries": 1},
        "method",
        "of 'limits': use limits={'retries': …}, or 'limits",
    ),
    ({**ENDPOINT, "url": 1}, "method", "did you mean 'base_url'?"),
    ({"type": "listwise", "llm": {**LLM, "api_base": 1}}, "method", "did you mean 'base_url'?"),
    ({"type": "listwise", "llm": {**LLM, "key": 1}}, "method", "did you mean 'api_key'?"),
    ({"type": "listwise", "llm": {**LLM, "token": 1}}, "method", "did you mean 'api_key'?"),
    ({"type": "listwise", "llm": {**LLM, "name": 1}}, "method", "did you mean 'model'?"),
    (
        {"type": "listwise", "model": "m"},
        "method",
        "of 'llm': use Reranker({'type': 'listwise', 'llm'",
    ),
    (
        {"type": "listwise", "llm": LLM, "max_tokens": 1},
        "method",
        "of 'llm': use Reranker({'type': 'listwise', 'llm': {'type': 'openai', 'model': …, 'max_to",
    ),
    ({"type": "cascade", "stages": [{**EMBEDDED, "dept": 5}]}, "method", "did you mean 'depth'?"),
    ({"type": "cascade", "stages": [{**EMBEDDED, "k": 5}]}, "method", "did you mean 'depth'?"),
    ({"type": "cascade", "stages": [{**EMBEDDED, "zz": 5}]}, "method", "backend, depth, feedback"),
    (
        [{**EMBEDDED, "flor": 0.5}],
        "fallback",
        "fallback[0].flor: unknown key; did you mean 'floor'?",
    ),
    ([{**EMBEDDED, "min_score": 0.5}], "fallback", "did you mean 'floor'?"),
    ([{**EMBEDDED, "max_lenght": 5}], "fallback", "did you mean 'max_length'?"),
    ([{**EMBEDDED, "zz": 5}], "fallback", "backend, blend, feedback, floor, idf, "),
    ({"type": "listwise", "llm": {**LLM, "max_retries": 1}}, "method", "of 'limits': use limits={"),
    (
        {"type": "cascade", "stages": [{"method": {"type": "cross_encoder", "use_fp16": 1}}]},
        "method",
        "method.stages[0].method.use_fp16: unknown key; write 'precision': 'float16'",
    ),
    (
        {"timeout": 1},
        "limits",
        "did you mean 'deadline', or 'timeout' of the method, {'type': 'endpoint', 'timeout': …}?",
    ),
    ({"max_retries": 1}, "limits", "did you mean 'retries'?"),
    ({"top_k": 1}, "limits", "of the reranker: use top_k=…, or 'top_k: …' in a configuration"),
    ({"document_prefix": 1}, "render", "did you mean 'prefix'?"),
    ({"original": 0.5, "optinal": 1}, "blend", "did you mean 'optional'?"),
    ({"path": "answers", "file": 1}, "cache", "known are: "),
]


@pytest.mark.parametrize(("settings", "setting", "part"), NESTED)
def test_a_key_of_a_mapping_in_a_configuration(settings, setting, part):
    whole = {"method": "lexical", setting: settings}
    with pytest.raises(SecondPassError, match=re.escape(part)):
        Reranker(**whole)
    with pytest.raises(SecondPassError, match=re.escape(part)):
        Reranker.from_config(whole)


OTHER_SPELLINGS = [
    ("Cohere", "Reranker.from_preset('cohere')"),
    ("OpenAI", "{'type': 'openai', 'model': …}"),
    ("GPT-4o", "'model': 'gpt-4o'"),
    ("llm", "is the 'llm' of a method: use 'listwise', 'graded', 'pointwise' or 'blocks'"),
    ("CrossEncoder", "did you mean 'cross_encoder'?"),
    ("ms-marco-MiniLM-L-12-v2", "'model': 'cross-encoder/ms-marco-MiniLM-L12-v2'"),
    ("ms-marco-TinyBERT-L-2-v2", "'model': 'cross-encoder/ms-marco-TinyBERT-L2-v2'"),
    ("bge-reranker-v2-m3", "'model': 'BAAI/bge-reranker-v2-m3'"),
    ("colbertv2.0", "{'type': 'cross_encoder', 'model': 'colbert-ir/colbertv2.0'}"),
    ("rank-T5-flan", f"it is a model of FlashRank; what to use in its place: {COMING_FROM}"),
]


@pytest.mark.parametrize(("name", "part"), OTHER_SPELLINGS)
def test_a_name_as_other_packages_write_it(name, part):
    with pytest.raises(SecondPassError, match=re.escape(part)):
        Reranker(name)


def test_a_reranker_without_a_method():
    with pytest.raises(
        SecondPassError, match=r"method: is required, such as 'embedded'$"
    ) as caught:
        Reranker()
    Reranker(eval(str(caught.value).partition("such as ")[2]))
    with pytest.raises(SecondPassError, match=r"method: is required, such as 'embedded'$"):
        Reranker.from_config({"depth": 3})


PROVIDERS = [*name_hints._SAME_API, "LM Studio", "llama_cpp", "azure_openai", "Gemini", "claude"]
OTHER_MODELS = ["gpt-4o", "claude-haiku-4-5", "qwen3:8b"]


@pytest.mark.parametrize("name", [*PROVIDERS, *OTHER_MODELS])
def test_a_provider_of_language_models_that_is_none_here(name, monkeypatch):
    """Whether it is the type, or stands in the place of the whole language model."""
    for variable in ("OPENAI_API_KEY", "GOOGLE_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, "k")
    for llm in ({"type": name, "model": "m"}, name):
        with pytest.raises(SecondPassError) as caught:
            Reranker({"type": "graded", "llm": llm})
        if meant := re.search(r"did you mean ('\w+')\?", str(caught.value)):
            code = f"{{'type': {meant[1]}, 'model': …}}"
        else:
            (code,) = re.findall(r"{.*?}", str(caught.value))
        made = Reranker({"type": "graded", "llm": filled(eval(code.replace("…", "...")))})
        assert made.method.llm.model


@pytest.mark.parametrize("kind", ["graded", "listwise", "pointwise", "blocks", "endpoint"])
def test_a_method_without_what_it_requires(kind):
    with pytest.raises(SecondPassError, match=r"method\.\w+: is required, such as ") as caught:
        Reranker(kind)
    name, value = re.fullmatch(
        r".*method\.(\w+): is required, such as (.*)", str(caught.value)
    ).groups()
    assert Reranker({"type": kind, name: eval(value), **({} if name == "llm" else {"model": "m"})})


@pytest.mark.parametrize("family", ["terms", "orderings", "llms", "contexts"])
def test_what_is_not_registered(family):
    with pytest.raises(SecondPassError, match=r"type: no (term|ordering|provider of|context)"):
        registry.kind(family, "zzz")
