"""The recipes run as their docstrings say, without a key, and with the reader's own model."""

import json
import os
import re
import subprocess
import sys
import tomllib

import handbook
import own_scorer
import plain_rag
import pytest
import quality_gate
import yaml
from scripted_model import ScriptedModel

import fake_provider as fake
from example_commands import EXAMPLES, ROOT, of_folder, run
from fake_provider import FakeProvider
from install_lines import requirements_of
from secondpass import Reranker
from secondpass_evaluation import read_qrels
from unset_models import MODEL_VARIABLES

RECIPES = EXAMPLES / "recipes"
COMMANDS = of_folder(RECIPES)
NEEDS_A_PACKAGE = ("qdrant", "lancedb", "pgvector", "uvicorn")
"""In commands that test_recipe_stores.py runs, marked `long`."""
REQUIREMENT = re.compile(r"([\w-]+)(\[([\w,-]+)\])?")
NOT_TESTED_WITH = {"uvicorn", "jupyter"}
"""Packages that start a server for the reader: the tests call the app and the cells themselves."""


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Nothing of the machine's; addresses of local servers are those of a scripted one."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in (*MODEL_VARIABLES, "RERANK_LLM", "RERANK_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def local_servers(monkeypatch):
    """A scripted server at the address of each local server."""
    with ScriptedModel() as model:
        address = model.address
        for name, path in {"OLLAMA_URL": "/v1", "VLLM_URL": "", "LLAMA_CPP_URL": ""}.items():
            monkeypatch.setenv(name, address + path)
        monkeypatch.setenv("OLLAMA_HOST", address.removeprefix("http://"))
        yield address


def rows(printed):
    """The ids of a printed table, in order."""
    return [line.split()[-1] for line in printed.splitlines() if re.match(r" +\d+ +\d+ ", line)]


@pytest.mark.parametrize(
    "command",
    [
        command
        for command in COMMANDS
        if command.startswith("python") and not any(name in command for name in NEEDS_A_PACKAGE)
    ],
)
def test_commands_run(command, local_servers, monkeypatch, capsys):
    expected = 1 if "--bar 0.99" in command else 0
    assert run(command, monkeypatch) == expected
    printed = capsys.readouterr()
    assert printed.out
    assert ("quality gate failed: RR@10 is 0." in printed.err) == bool(expected)
    assert "not_run" not in printed.out
    assert "degraded" not in printed.out
    assert "unchanged" not in printed.out


def test_install_lines_name_what_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])
    stores = (EXAMPLES / "requirements-stores.txt").read_text()
    packages = set(re.findall(r"^[\w-]+", stores, re.MULTILINE)) | NOT_TESTED_WITH
    lines = [command for command in COMMANDS if command.startswith("pip install")]
    assert {command.split()[0] for command in COMMANDS} == {"pip", "python", "uvicorn"}
    for line in lines:
        requirements = " ".join(requirements_of(line.partition("install")[2]))
        for name, _, wanted in REQUIREMENT.findall(requirements):
            if name == "secondpass":
                assert set(wanted.split(",")) <= extras, line
            else:
                assert name in packages, line


@pytest.mark.parametrize("page", sorted(RECIPES.rglob("*.md")), ids=lambda page: page.parent.name)
def test_python_of_the_pages_runs(page, local_servers, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page.name, "exec"), {})
    assert capsys.readouterr().out.startswith("ok ")
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


@pytest.fixture
def own_model(monkeypatch):
    """Runs the program with the reader's model: its exit code, and the requests to the model."""

    def run_with(step, *arguments):
        with FakeProvider(step) as provider:
            monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url("openai"))
            monkeypatch.setenv("OPENAI_API_KEY", "sk-test-SECRET")
            monkeypatch.setenv("LLM_MODEL", "m")
            return plain_rag.main([*arguments]), provider.requests

    return run_with


class TestPlainRag:
    @pytest.mark.parametrize("llm_rerank", [False, True])
    def test_with_the_readers_model(self, llm_rerank, own_model, capsys):
        def step(request):
            text = fake.reply_text(request) if request.labels else "Ride without its help [1]."
            return [fake.http(200, fake.envelope(request, text))]

        code, requests = own_model(step, *["--llm-rerank"] * llm_rerank)
        assert (code, len(requests)) == (0, 1 + llm_rerank)
        answering = requests[-1]
        assert (answering.key, answering.body["model"]) == ("sk-test-SECRET", "m")
        assert answering.messages[1].startswith("Sources:\n[1] ")
        assert answering.messages[1].endswith("Question: The screen says E71, what now?")
        printed = capsys.readouterr()
        assert printed.out.endswith("Ride without its help [1].\n")
        assert printed.err == ""

    def test_a_model_that_fails(self, own_model, capsys):
        assert own_model(fake.status(401))[0] == 1
        printed = capsys.readouterr()
        assert rows(printed.out)[0] == "e71"
        assert "failed: AuthenticationError" in printed.err
        assert "SECRET" not in printed.out + printed.err


def test_the_scores_of_the_own_scorer():
    scorer, documents = own_scorer.IdentifierScorer(), ["E71: hot", "(e17)", "5 bikes"]
    expected = {"what is E71": [1, 0, 0], "e71 or E17": [0.5, 0.5, 0], "my 5 bikes": [0, 0, 0]}
    assert {query: scorer.score_pairs(query, documents) for query in expected} == expected
    assert scorer.score_pairs("", documents) == [0, 0, 0]


def registered(module, folder):
    """Install the entry point of a module's docstring, as its package would; the environment."""
    text = (RECIPES / f"{module}.py").read_text(encoding="utf-8")
    [(group, line)] = re.findall(r'\[project\.entry-points\."(.+?)"\]\n +(.+)', text)
    name, value = line.replace('"', "").split(" = ")
    metadata = folder / "example-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    paths = [str(folder), str(RECIPES), *sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def reranked(config, environment, *settings):
    """What `secondpass rerank` makes of two passages with a configuration."""
    arguments = ["rerank", "-", "--query", "What is E71?", "--config", str(RECIPES / config)]
    lines = [{"id": "e17", "text": "E17: lock", "score": 0.5}, {"id": "e71", "text": "E71: motor"}]
    done = subprocess.run(
        [sys.executable, "-m", "secondpass", *arguments, *settings],
        input="\n".join(map(json.dumps, lines)),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_scorer_by_its_name(tmp_path):
    result = reranked("own_scorer.yaml", registered("own_scorer", tmp_path))
    assert result["ranking"][0]["id"] == "e71"
    assert result["report"]["method"].endswith("identifiers")


@pytest.mark.long  # a process
def test_the_provider_by_its_name(tmp_path):
    with ScriptedModel() as model:
        environment = {**registered("own_provider", tmp_path), "OLLAMA_URL": model.address}
        result = reranked("own_provider.yaml", environment)
    assert result["ranking"][0]["id"] == "e71"
    assert result["report"]["status"] == "ok"


@pytest.mark.parametrize("broken", [False, True])
def test_the_provider_asks_as_ollama_wants(broken, monkeypatch):
    from own_provider import Ollama

    from secondpass.strategies.graded import Graded

    answer, bodies = ScriptedModel.answer, []

    def answered(model, path, body):
        assert path == "/api/chat"
        bodies.append(body)
        counts = {"prompt_eval_count": 70, "eval_count": 9}
        return {"done": True} if broken else {**answer(model, path, body), **counts}

    monkeypatch.setattr(ScriptedModel, "answer", answered)
    with ScriptedModel() as model:
        settings = {"context_window": 4096, "max_tokens": 300, "options": {"top_k": 1}}
        llm = Ollama("m", base_url=model.address, **settings)
        reranker = Reranker(Graded(llm), limits={"retries": 0, "repair": 0})
        ranking = reranker.rerank("E71", ["E17", "E71"])
        reranker.close()
    [body] = bodies
    assert (body["model"], body["stream"]) == ("m", False)
    options = {"temperature": 0.0, "num_predict": 300, "num_ctx": 4096, "top_k": 1}
    assert body["options"] == options
    assert body["format"]["type"] == "object"
    if broken:
        assert ranking.report.issues[0].code == "bad_response"
    else:
        assert ranking.order == (1, 0)
        usage = ranking.report.usage
        assert (usage.input_tokens, usage.output_tokens) == (70, 9)


@pytest.mark.parametrize("path", sorted((RECIPES / "local_servers").glob("*.yaml")), ids=str)
class TestLocalServers:
    def test_each_configuration_against_its_api(self, path, monkeypatch):
        """The recorded requests have the shape that the servers document."""
        page = (RECIPES / "local_servers/README.md").read_text(encoding="utf-8")
        assert f"]({path.name})" in page
        chat = "llm" in yaml.safe_load(path.read_text())["method"]
        server = path.stem.removesuffix("_chat")
        with FakeProvider() as provider:
            url = provider.base_url("compatible" if chat else server)
            monkeypatch.setenv(f"{server.upper()}_URL", url)
            reranker = Reranker.from_config(path)
            ranking = reranker.rerank("which?", ["number 3", "number 9", "number 5"])
            reranker.close()
        [request] = provider.requests
        assert request.path.endswith("/v1/chat/completions" if chat else "/v1/rerank")
        assert [item.text[-1] for item in ranking] == ["9", "5", "3"]
        assert ranking.report.status == "ok"

    def test_without_a_server_the_fallback_ranks(self, path, monkeypatch):
        server = path.stem.removesuffix("_chat").upper()
        monkeypatch.setenv(f"{server}_URL", "http://127.0.0.1:9/v1")
        reranker = Reranker.from_config(path).changed(limits={"retries": 0, "deadline": 60})
        ranking = reranker.rerank("red panda", ["a blue car", "the red panda"])
        reranker.close()
        assert ranking.order == (1, 0)
        assert ranking.report.status == "degraded"
        assert ranking.report.issues[0].code == "connection"


DOWN = """
method: {type: listwise, llm: {type: openai, model: m, base_url: 'http://127.0.0.1:9'}}
fallback: [lexical]
limits: {retries: 0}
"""


class TestQualityGate:
    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ("limits: {deadline: 1.0e-9}\nmethod: lexical\n", "was not measured"),
            ("flor: 1\nmethod: lexical\n", "floor"),
            (DOWN, "100% of the rankings are not ok: connection"),
            (
                "order: {type: lost_in_the_middle}\nmethod: lexical\n",
                "lower than that of the search",
            ),
            ("", "there is no such file or folder"),
        ],
    )
    def test_fails_for_other_reasons(self, config, message, tmp_path, capsys):
        path = tmp_path / "rerank.yaml"
        path.write_text(config)
        other = ["--config", str(path)] if config else ["--suite", str(tmp_path / "none")]
        unread = not config or "flor" in config
        assert quality_gate.main(["--bar", "0", *other]) == (2 if unread else 1)
        assert message in capsys.readouterr().err

    def test_the_workflow_runs_the_gate(self, monkeypatch, tmp_path, capsys):
        workflow = yaml.safe_load((RECIPES / "quality_gate_workflow.yaml").read_text())
        runs = [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step]
        install, gate = runs
        assert install.startswith("pip install ")
        assert run(gate.replace("results", str(tmp_path / "results")), monkeypatch) == 0
        assert (tmp_path / "results/report.html").exists()
        assert "hybrid+rerank: nDCG@10 0." in capsys.readouterr().out


def test_hits_become_candidates():
    import elasticsearch_hits

    found = elasticsearch_hits.candidates(elasticsearch_hits.RESPONSE)
    assert [one.id for one in found] == ["e17", "winter", "e71"]
    assert found[0].score == 2.41
    assert found[0].metadata["title"] == "Display shows E17"
    ranking = elasticsearch_hits.rank(elasticsearch_hits.QUESTION, elasticsearch_hits.RESPONSE)
    assert len(ranking) == 3
    assert ranking.report.status == "ok"
    assert elasticsearch_hits.candidates({"hits": {"hits": []}}) == []
    assert [elasticsearch_hits.number(score, 2) for score in (None, 1.005)] == ["none", "1.00"]


@pytest.mark.parametrize("weight", ["-1", "nan", "inf"])
def test_a_weight_of_news_that_is_none(weight, capsys):
    import news

    with pytest.raises(SystemExit, match="2"):
        news.main(["--weight", weight])
    assert "--weight: give a number from 0" in capsys.readouterr().err


def test_the_handbook_is_a_suite():
    from secondpass_evaluation import load_suite

    suite = load_suite(handbook.SUITE)
    assert not suite.notes
    assert set(suite.queries) == set(handbook.questions()) == set(suite.qrels)
    assert {str(one.id) for one in handbook.passages()} == {one.id for one in suite.corpus}


NOTEBOOK = json.loads((RECIPES / "evaluate.ipynb").read_text(encoding="utf-8"))
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_holds_what_its_cells_print():
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert [cell["execution_count"] for cell in CELLS] == [*range(1, len(CELLS) + 1)]
    printed = [json.dumps(cell["outputs"]) for cell in CELLS if cell["outputs"]]
    assert sum("image/png" in output for output in printed) == 2
    assert any("vector+embedded" in output for output in printed)
    assert not [output for output in printed if "stderr" in output or str(ROOT) in output]
    identifiers = [cell["id"] for cell in NOTEBOOK["cells"]]
    assert len(set(identifiers)) == len(identifiers)


@pytest.mark.long  # encodes hundreds of passages
def test_the_cells_of_the_notebook_run(monkeypatch, capsys):
    """With the passages that answer some of the questions, not all of the documentation."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    import python_docs

    qrels = read_qrels(EXAMPLES / "data/python-docs.qrels")
    answers = {key for query in [*qrels][:20] for key, grade in qrels[query].items() if grade == 3}
    some = [one for one in python_docs.passages() if python_docs.key(one.id) in answers]
    monkeypatch.setattr(python_docs, "passages", lambda: some)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(RECIPES)
    names = {}
    try:
        for cell in CELLS:
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
        means, queries = (plt.figure(number).axes[0] for number in plt.get_fignums())
        rerankers = [f"vector+{name}" for name in ("embedded", "unblended", "words")]
        assert [label.get_text() for label in means.get_yticklabels()] == [
            "vector", "lexical", "hybrid", *rerankers
        ]  # fmt: skip
        assert len(queries.texts) == 58
        for figure in map(plt.figure, plt.get_fignums()):
            figure.canvas.draw()
    finally:
        plt.close("all")
    assert "embedded" in names["comparison"]._repr_html_()
    assert not names["comparison"].not_run
