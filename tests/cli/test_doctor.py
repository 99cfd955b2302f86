"""``secondpass doctor``: what is installed, set, reachable and loadable."""

import json
import socket
from importlib import metadata

import pytest

from fake_provider import FakeProvider


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_extras_are_told_with_their_versions(secondpass):
    told = json.loads(secondpass("doctor", "--json").out)
    assert told["extras"]["cli"]["installed"]
    assert told["extras"]["cli"]["packages"]["typer"] == metadata.version("typer")
    assert "dev" not in told["extras"]
    assert set(told) == {"secondpass", "python", "platform", "extras"}
    shown = secondpass("doctor")
    assert (shown.code, f"typer {metadata.version('typer')}" in shown.out) == (0, True)


def test_an_extra_that_is_missing_is_told_with_the_command(secondpass, monkeypatch):
    real = metadata.version

    def version(name):
        if name == "tokenizers":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    told = secondpass("doctor")
    assert told.code == 0  # nothing was asked of it
    assert 'pip install "secondpass[embedded]"' in told.out
    assert "tokenizers is missing" in told.out


def test_a_preset_is_made_loaded_and_run(secondpass):
    told = secondpass("doctor", "--preset", "embedded", "--json")
    found = json.loads(told.out)["reranker"]
    assert (told.code, found["runs"], found["report"]["status"]) == (0, True, "ok")
    assert found["order"] == ["banana", "moon"]
    assert "runs: status ok, method lexical" in secondpass("doctor", "-p", "lexical").out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--preset", "embeded"], "no preset is named 'embeded'; did you mean 'embedded'"),
        (["--config", "gone.yaml"], "there is no such file"),
        (["--config", "broken.yaml"], "not YAML at line 2"),
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
    write("broken.yaml", "method: lexical\n  depth: [")
    write(
        "closed.yaml",
        "method: {type: endpoint, api: tei, base_url: 'http://127.0.0.1:9'}\nlimits: {retries: 0}",
    )
    write("model.yaml", "method: {type: cross_encoder, model: ./no-model}")
    told = secondpass("doctor", *arguments, "--json")
    found = json.loads(told.out)["reranker"]
    assert (told.code, found["runs"]) == (1, False)
    assert reason in found["reason"]
    if "closed.yaml" in arguments:
        shown = secondpass("doctor", *arguments)
        assert (shown.code, "cannot run: " in shown.out) == (1, True)
        assert reason in shown.out


def test_addresses_are_tried_and_keys_are_not_shown(secondpass, write, monkeypatch, listening):
    monkeypatch.setenv("MY_RERANK_KEY", "sk-very-secret")
    monkeypatch.delenv("MY_OTHER_KEY", raising=False)
    address = listening.replace("http://", "http://user:sk-very-secret@")
    fallback = "{type: endpoint, api: vllm, model: m, base_url: 'http://127.0.0.1:9'}"
    config = write(
        "c.yaml",
        f"method: {{type: endpoint, api: tei, base_url: '{address}/v1', timeout: 0.2,"
        " api_key_env: [MY_RERANK_KEY, MY_OTHER_KEY]}\n"
        f"fallback: [{fallback}]\nlimits: {{retries: 0, deadline: 1}}",
    )
    for form in (["--json"], []):
        told = secondpass("doctor", "--config", config, "--network", *form)
        assert "sk-very-secret" not in told.out + told.err
        assert told.code == 1
        assert listening in told.out
    found = json.loads(secondpass("doctor", "--config", config, "--network", "--json").out)
    assert found["network"]["variables"] == {"MY_OTHER_KEY": False, "MY_RERANK_KEY": True}
    assert found["network"]["addresses"][listening] == "reached"
    assert found["network"]["addresses"]["http://127.0.0.1:9"].startswith("not reached")


@pytest.mark.parametrize("form", ["inline", "file"])
def test_apis_of_the_user_are_tried(secondpass, write, monkeypatch, listening, form):
    monkeypatch.delenv("MY_RERANK_KEY", raising=False)
    api = (
        f"{{url: '{listening}/v1', key_variables: MY_RERANK_KEY,"
        " request: {q: $query, d: $documents}}"
    )
    if form == "file":
        api = json.dumps(str(write("api.yaml", api)))
    config = write("c.yaml", f"method: {{type: endpoint, api: {api}}}")
    told = secondpass("doctor", "--config", config, "--network", "--json")
    found = json.loads(told.out)["network"]
    assert found["variables"] == {"MY_RERANK_KEY": False}
    assert found["addresses"] == {listening: "reached"}


@pytest.mark.parametrize(
    "content",
    [
        "method: {type: endpoint, api: tei, api_key_env: 3}",
        "method: {type: endpoint, api: tei, base_url: x, api_key_env: [3, A]}",
        "method: {type: endpoint, api: {env: []}}",
        "method: {type: endpoint, api: {env: 3}, base_url: {env: {}}}",
        "method: &a [*a]",
        "method: &a {type: graded, llm: *a, more: [*a, *a]}",
    ],
)
def test_a_wrong_configuration_is_told_whatever_the_network_is_asked(secondpass, write, content):
    told = secondpass("doctor", "--config", write("c.yaml", content), "--network")
    assert (told.code, "cannot run: " in told.out) == (1, True), told.err


def test_an_address_in_brackets_is_tried(secondpass, write):
    config = write(
        "c.yaml",
        "method: {type: endpoint, api: tei, base_url: 'http://[::1]:9/v1'}\nlimits: {retries: 0}",
    )
    found = json.loads(secondpass("doctor", "--config", config, "--network", "--json").out)
    assert found["network"]["addresses"]["http://[::1]:9"].startswith("not reached")


def test_without_a_configuration_the_usual_variables_are_told(secondpass, monkeypatch, listening):
    for name in ("CO_API_KEY", "COHERE_API_KEY", "JINA_API_KEY", "VOYAGE_API_KEY", "MXBAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)  # or their addresses would be tried
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("TEI_URL", listening)
    monkeypatch.setenv("VLLM_URL", "nonsense\x1b[2J")
    told = secondpass("doctor", "--network", "--json")
    found = json.loads(told.out)["network"]
    assert found["variables"]["OPENAI_API_KEY"] is True
    assert found["variables"]["JINA_API_KEY"] is False
    assert found["addresses"][listening] == "reached"
    assert "not an address of http or https" in found["addresses"].values()
    assert "secret" not in told.out


def test_a_stored_answer_does_not_stand_for_the_service(secondpass, write, tmp_path):
    with FakeProvider() as provider:
        llm = f"{{type: openai, model: m, base_url: '{provider.base_url('openai')}'}}"
        config = write(
            "cached.yaml",
            f"method: {{type: graded, llm: {llm}}}\ncache: {tmp_path / 'answers.sqlite'}\n",
        )
        for number in (1, 2):
            assert secondpass("doctor", "--config", config).code == 0
            assert provider.calls == number
    assert secondpass("doctor", "--config", config).code == 1
