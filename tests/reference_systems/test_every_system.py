"""What holds of every system: its settings and requests, and that no fault costs the order."""

from __future__ import annotations

import contextlib
import copy
import json
import os
from operator import attrgetter

import pytest

import fake_provider as fake
from contract import adapter_of, first
from reference_systems import SYSTEMS, ids, logged, nodes, says, tactic
from secondpass import Candidate, Reranker, RerankError, config

every_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)

SETTINGS = {
    "blended_scores": {
        "depth": 20,
        "tail": "keep",
        "floor": 0.05,
        "blend.original": 0.4,
        "blend.normalize": "none",
        "limits.retries": 0,
        "limits.repair": 0,
        "method.llm.temperature": 0.1,
        "method.llm.base_url": "https://api.groq.com/openai/v1",
        "method.llm.api_key_env": "GROQ_API_KEY",
    },
    "graded_passages": {
        "method.llm.package": "google.genai",
        "method.llm.model": "gemini-2.5-flash",
        "method.llm.temperature": 0.0,
        "method.llm.structured": "auto",
        "method.scale": (0.0, 10.0),
        "log_level": "warning",
        "order": None,
    },
    "listwise_guided": {
        "method.llm.package": "anthropic",
        "method.llm.model": "claude-haiku-4-5-20251001",
        "method.llm.timeout": 60.0,
        "candidate_multiplier": 3,
        "depth": None,  # the pool is shown whole, however large
        "log_level": "debug",
        "strict": False,
    },
    "listwise_ids": {
        "depth": 10,
        "tail": "keep",
        "log_level": "warning",
        "strict": False,
        "method.llm.model": "gpt-4.1-mini",
        "method.llm.base_url": None,
        "method.llm.key_variables": ("OPENAI_API_KEY",),
    },
}


@every_system
def test_settings(system, provider):
    reranker = Reranker.from_preset(system.preset)
    expected = SETTINGS[system.preset]
    assert {name: attrgetter(name)(reranker) for name in expected} == expected


# Path, client, and the members of the body. There is no schema where an array is asked for: schemas
# are for objects.
SENT = {
    "blended_scores": ("/openai/v1/chat/completions", "AsyncOpenAI/", "messages model temperature"),
    "graded_passages": (
        "/google/v1/models/gemini-2.5-flash:generateContent",
        "google-genai-sdk/",
        "contents generationConfig systemInstruction",
    ),
    "listwise_guided": (
        "/anthropic/v1/messages",
        "AsyncAnthropic/",
        "max_tokens messages model system temperature",
    ),
    "listwise_ids": ("/openai/v1/chat/completions", "AsyncOpenAI/", "messages model temperature"),
}


@every_system
def test_what_is_sent(system, provider, make, rank):
    reranker = make()
    ranking = rank(reranker, system.query, system.given(4), **system.options)
    assert ranking.report.status == "ok"
    [request] = provider.requests
    assert request.key == system.key
    path, client, members = SENT[system.preset]
    assert request.path == path
    assert request.headers["user-agent"].startswith(client)
    assert " ".join(sorted(request.body)) == members
    sent = {**request.body, **request.body.get("generationConfig", {})}
    assert sent["temperature"] == reranker.method.llm.temperature
    assert request.body.get("model", path) in {reranker.method.llm.model, path}
    assert f"<query>{system.query}</query>" in request.messages[-1]


@every_system
def test_everything_of_a_candidate_comes_back(system, provider, make, rank):
    given = system.given(4)
    before = copy.deepcopy(given)
    for item in rank(make(floor=None), system.query, given, **system.options):
        fields = dict(before[item.position])
        assert item.id == fields.pop("id", None)
        assert item.score == fields.pop("score", None)
        assert item.text == fields.pop("text", fields.pop("content", None))
        assert item.metadata == {**fields, "rerank_score": item.rerank_score}
    assert given == before


@pytest.mark.parametrize(
    ("system", "count"),
    [
        pytest.param(system, count, id=f"{name} {count}")
        for name, system in SYSTEMS.items()
        for count in (0, 1)
        if (name, count) != ("blended_scores", 1)  # grades a single one
    ],
)
def test_where_there_is_nothing_to_order_nothing_is_asked(system, count, provider, make, rank):
    ranking = rank(make(strict=True), system.query, system.given(count), **system.options)
    assert len(ranking) == count
    assert (ranking.report.status, ranking.report.issues, provider.calls) == ("ok", (), 0)


def unchanged(rank, reranker, system, caplog, code):
    """The ranking, in the order that came in; its log line, if it was not raised."""
    given = system.given(4)
    with caplog.at_level(system.level, logger="secondpass"):
        if reranker.strict:
            with pytest.raises(RerankError, match=code) as caught:
                rank(reranker, system.query, given, **system.options)
            ranking, message = caught.value.ranking, ""
        else:
            ranking = rank(reranker, system.query, given, **system.options)
            [record] = logged(caplog)
            assert record.levelno == system.level
            message = record.getMessage()
            assert code in message
            secrets = system.key, system.query, "passage 0", "Page 0", "result 0", "green tea"
            assert not any(secret in message for secret in secrets)
    assert ranking.order == (0, 1, 2, 3)
    assert [item.final_score for item in ranking] == [one.get("score") for one in given]
    assert [item.rerank_score for item in ranking] == [None] * 4
    assert ranking.report.status == "unchanged"
    assert ranking.report.issues[-1].code == code
    return ranking, message


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("system", "fault"),
    [
        pytest.param(system, fault, id=f"{name} {fault}")
        for name, system in SYSTEMS.items()
        for fault in system.faults
    ],
)
def test_a_fault_leaves_the_order(system, fault, strict, provider, make, rank, caplog, capfd):
    step, code = system.faults[fault]
    provider.play(step)
    ranking, _ = unchanged(rank, make(strict=strict), system, caplog, code)
    assert ranking.report.usage.calls == provider.calls
    if system.preset == "blended_scores":  # one try
        assert provider.calls == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("strict", [False, True])
@every_system
def test_without_a_key(system, strict, provider, rank, monkeypatch, caplog):
    monkeypatch.delenv(system.variable)
    # No other address either, so a request would leave this machine: the key is looked for first.
    reranker = Reranker.from_preset(system.preset, strict=strict)
    ranking, message = unchanged(rank, reranker, system, caplog, "no_key")
    assert system.variable in ranking.report.issues[0].message
    assert strict or system.variable in message


# ---------------------------------------------------------------------- frameworks


def permuted(of):
    """A step: an order of all labels that is neither the one that came in nor its reverse."""

    def step(request):
        labels = [*map(of, request.labels)]
        return says(json.dumps([*labels[1::2], *labels[::2]]))(request)

    return step


def by_grade(highest):
    rows = [{"index": at, "score": (at * 5 % 7) / 6 * highest} for at in range(6)]
    return says(json.dumps(rows if highest == 1 else {"grades": rows}))


IN_FRAMEWORKS = {
    # step, metadata of a candidate, settings
    "blended_scores": (by_grade(1), lambda at: {"day": at}, {}),
    "graded_passages": (
        by_grade(10),
        lambda at: {"difficulty": ["advanced", "introductory"][at % 2]},
        {"order": config.preset("graded_passages")["orders"]["learn"]},
    ),
    "listwise_guided": (permuted(int), lambda at: {"path": f"task-{at}.md"}, {"top_k": 2}),
    "listwise_ids": (
        permuted(str),
        lambda at: {key: value for key, value in tactic(f"t{at}").items() if key != "id"},
        {},
    ),
}


@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize("framework", ["haystack", "llama_index"])
@every_system
def test_the_library_and_the_adapters_agree(system, framework, fault, provider):
    adapter = adapter_of(framework)
    step, metadata, settings = IN_FRAMEWORKS[system.preset]
    provider.play(fake.status(404) if fault else step)
    method = {"llm": {"base_url": provider.base_url(system.api)}}
    configuration = config.preset(system.preset, method=method, **settings)
    given = [
        Candidate(f"Page {at}. " + "a passage " * 60, f"t{at}", 0.9 - at / 10, metadata(at))
        for at in range(6)
    ]
    with contextlib.closing(Reranker.from_config(configuration)) as reranker:
        ranking = reranker.rerank(system.query, given, **system.options)
    assert ranking.report.status == ("unchanged" if fault else "ok")
    documents = [adapter.given(one.text, one.id, one.score, {**one.metadata}) for one in given]
    with contextlib.closing(adapter.make(configuration)) as component:
        for mode in ("sync", "async"):
            way = first(adapter, mode)
            ranked, report = adapter.run(component, way, system.query, documents, **system.options)
            assert [adapter.carried(one).id for one in ranked] == ids(ranking)
            assert report["status"] == ranking.report.status
    assert len({json.dumps(request.body) for request in provider.requests}) == 1
    assert provider.calls == 3


# ---------------------------------------------------------------------- the real services

LIVE = {
    # query, candidates, the best first
    "blended_scores": (
        "what does the user like to drink?",
        [
            Candidate("drinks green tea every morning", "tea", 0.3),
            Candidate("the car is in the garage", "car", 0.4),
        ],
        {},
    ),
    "graded_passages": (
        "what is free will?",
        [
            "Compatibilists hold that an act is free where it flows from the agent's own reasons, "
            "even if those reasons are determined.",
            "The train from Lisbon to Porto takes about three hours.",
        ],
        {},
    ),
    "listwise_guided": (
        "publish a new version to PyPI",
        [
            {"path": "tool-release-prep.md", "text": "Prepares a release: version, changelog."},
            {"path": "task-package-publishing.md", "text": "How packages are published to PyPI."},
        ],
        {},
    ),
    "listwise_ids": (
        "database",
        [
            Candidate("", "choose-database", metadata={"description": "compare databases"}),
            Candidate("", "paint-the-office", metadata={"description": "choose colours"}),
        ],
        {"context": nodes()},
    ),
}


@pytest.mark.integration
@every_system
def test_live(system):
    if not os.environ.get(system.variable):
        pytest.skip(f"needs {system.variable}")
    query, best_first, options = LIVE[system.preset]
    with contextlib.closing(Reranker.from_preset(system.preset, strict=True)) as reranker:
        assert reranker.rerank(query, best_first[::-1], **options).order == (1, 0)
