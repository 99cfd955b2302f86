"""The key of an API is never sent to the Hugging Face hub, nor a token of the hub to an API."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from haystack.utils import Secret
from huggingface_hub import constants
from huggingface_hub.utils import close_session

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import ConfigurationError, ModelLoadError, Reranker
from secondpass.scorers.cross_encoder import CrossEncoderScorer

KEY = "the-key-of-an-api"


class Hub:
    """Refuses every request, and remembers what it was sent as authorization."""

    def __init__(self):
        self.sent = sent = []

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self):
                sent.append(self.headers.get("Authorization", ""))
                self.send_response(401)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self):
                self.do_HEAD()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    served = Hub()
    served.thread.start()
    template = served.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", served.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setenv("THE_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    close_session()
    yield served
    close_session()
    served.server.shutdown()
    served.server.server_close()
    served.thread.join(60)


def of_haystack(*reranker, **parameters):
    SecondPassRanker(
        *reranker, **{**parameters, "api_key": Secret.from_env_var("THE_KEY")}
    ).warm_up()


def of_haystack_with_token(*reranker, **parameters):
    of_token = Secret.from_env_var("THE_KEY")
    del parameters["api_key"]
    SecondPassRanker(*reranker, **parameters, token=of_token).warm_up()


def of_llama_index(*reranker, **parameters):
    ranker = SecondPassRerank(*reranker, **parameters)
    ranker._reranker.warm_up()


ADAPTERS = {"haystack": of_haystack, "llama_index": of_llama_index}
CROSS_ENCODER = {"method": "cross_encoder"}
APIS = {
    "rerank-v3.5": "for the rerank API 'cohere' use {}('cohere', model='rerank-v3.5', api_key=…)",
    "rerank-english-v3.0": "use {}('cohere', model='rerank-english-v3.0', api_key=…)",
    "jinaai/jina-reranker-v3": "use {}('jina', model='jina-reranker-v3', api_key=…)",
    "zerank-2": "use {}({{'method': {{'type': 'endpoint', 'api': 'zeroentropy'}}}}, "
    "model='zerank-2', api_key=…)",
    "gpt-4o-mini": "for that language model use {}({{'method': {{'type': 'graded', 'llm': "
    "{{'type': 'openai'}}}}}}, model='gpt-4o-mini', api_key=…)",
    "some/model": "name it: use {}({{'method': {{'type': 'endpoint', 'api': …}}}}, "
    "model='some/model', api_key=…); for a token of the hub, set HF_TOKEN or",
}
"""Model -> what to write instead of it alone."""


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("reranker", [(), ("default",), (CROSS_ENCODER,)], ids=["", "preset", "m"])
@pytest.mark.parametrize("model", APIS)
def test_the_key_of_an_api_beside_a_model_of_the_hub(hub, adapter, reranker, model):
    with pytest.raises(ConfigurationError) as caught:
        ADAPTERS[adapter](*reranker, model=model, api_key=KEY)
    message = str(caught.value)
    name = "SecondPassRanker" if adapter == "haystack" else "SecondPassRerank"
    assert "the key of an API is never sent to the hub" in message
    assert APIS[model].format(name) in message
    assert KEY not in message
    assert hub.sent == []


@pytest.mark.parametrize("adapter", [SecondPassRanker, SecondPassRerank])
@pytest.mark.parametrize("model", APIS)
def test_the_code_of_the_hint(adapter, model):
    key = Secret.from_env_var("THE_KEY") if adapter is SecondPassRanker else KEY
    with pytest.raises(ConfigurationError) as caught:
        adapter(model=model, api_key=key)
    (code,) = re.findall(r"use (SecondPassRe?\w+\(.*\)); for a token", str(caught.value))
    code = code.replace("'api': …", "'api': 'cohere'").replace("api_key=…", "api_key=key")
    made = eval(code, {adapter.__name__: adapter, "key": key})
    config = str(made._reranker.method.name)
    assert model.removeprefix("jinaai/") in config


@pytest.mark.parametrize("setting", ["token", "token_env"])
@pytest.mark.parametrize("model", ["rerank-v3.5", "cohere/rerank-v3.5", "gpt-4o"])
def test_a_token_beside_the_name_of_an_apis_model(hub, setting, model):
    key = {"token": KEY} if setting == "token" else {"token_env": "THE_KEY"}
    with pytest.raises(ConfigurationError) as caught:
        Reranker({"type": "cross_encoder", "model": model, **key}).warm_up()
    message = str(caught.value)
    assert f"method.model: '{model}' is the name of an API's model, so the token is not" in message
    assert KEY not in message
    assert hub.sent == []
    (code,) = re.findall(r"use (\{.*\}); for a token", message)
    code = code.replace("'api': …", "'api': 'cohere'").replace("…", "'k'")
    assert model.rpartition("/")[2] in Reranker(eval(code)).method.name


def test_a_token_of_haystack_beside_the_name_of_an_apis_model(hub):
    with pytest.raises(ConfigurationError, match=r"the name of an API's model.*'cohere'"):
        of_haystack_with_token(model="rerank-v3.5", api_key=None)
    assert hub.sent == []


@pytest.mark.parametrize("reranker", ["cohere", {"method": {"type": "graded", "llm": "openai"}}])
def test_a_token_of_the_hub_beside_an_api(reranker):
    part = "it is a token of the Hugging Face hub; the key of an API is api_key="
    with pytest.raises(ConfigurationError, match=re.escape(part)):
        SecondPassRanker(reranker, token=Secret.from_env_var("HF_TOKEN"))


def test_a_folder_needs_no_owner(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own-model").mkdir()
    Reranker({"type": "cross_encoder", "model": "own-model", "token": KEY})


REFUSED = "the hub refused access with status 401: "
TOKENS = {
    "setting": ({"token": "hf_1"}, {}, "hf_1", "check the token of the setting token"),
    "variable": ({"token_env": ["NONE", "MINE"]}, {}, "hf_2", "token of the variable MINE"),
    "usual": ({}, {"HF_TOKEN": "hf_3"}, "hf_3", "check the token of the variable HF_TOKEN"),
    "none": ({}, {}, "", "set HF_TOKEN, or the variable that token_env names, to a token"),
}
"""Settings, variables, what the hub is sent, and what is said after a refusal."""


@pytest.mark.parametrize("name", TOKENS)
def test_a_refusal_names_where_the_token_came_from(hub, monkeypatch, name):
    settings, values, sent, part = TOKENS[name]
    for variable, value in {"MINE": "hf_2", **values}.items():
        monkeypatch.setenv(variable, value)
    scorer = CrossEncoderScorer("some/model", **settings)
    with pytest.raises(ModelLoadError, match=re.escape(part)) as caught:
        scorer.warm_up()
    assert REFUSED in str(caught.value)
    assert f"Bearer {sent}" * bool(sent) in hub.sent
    assert {*hub.sent} <= {"", f"Bearer {sent}"}


def test_a_refusal_names_the_file_of_the_token(hub, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("hf_4")
    with pytest.raises(ModelLoadError, match=re.escape(f"of the file {tmp_path / 'token'}")):
        CrossEncoderScorer("some/model").warm_up()
    assert {*hub.sent} == {"Bearer hf_4"}


def test_a_model_of_a_rerank_api_that_the_hub_does_not_have():
    part = "use the method {'type': 'endpoint', 'api': 'cohere', 'model': 'rerank-v3.5'}"
    with pytest.raises(ModelLoadError, match=re.escape(part)):
        CrossEncoderScorer("rerank-v3.5", local_files_only=True).warm_up()
