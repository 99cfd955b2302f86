"""Spans and metrics of OpenTelemetry, by its own SDK."""

import json

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fakes import Answering, ByTable, Model, always, numbered, ranked, shown_in
from rankings import WAYS, rank
from secondpass import Candidate, MissingExtraError, Reranker
from secondpass.adapters.opentelemetry import instrument, of_texts
from secondpass.errors import LLMError
from secondpass.questions import Completion
from secondpass.strategies.cascade import Cascade, CascadeStage
from secondpass.strategies.listwise import Listwise

TEXTS = numbered([3, 9, 5, 7])
QUERY = "where do they sleep"
BUSY = LLMError("the server is busy", "server_error", retryable=True)
NAME = "by-table, then listwise by model"


class Telemetry:
    """What was exported."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.tracer_provider.get_tracer("test")
        self.reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self.reader])

    def instrument(self, **options):
        return instrument(
            tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, **options
        )

    @property
    def spans(self):
        """The spans, in the order in which they started."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time)

    def named(self, name):
        return [span for span in self.spans if span.name == name]

    def tree(self, parent=None):
        """Names of spans, with those within each."""
        identifier = parent and parent.context.span_id
        return [
            (span.name, *self.tree(span))
            for span in self.spans
            if (span.parent and span.parent.span_id) == identifier
        ]

    def metrics(self):
        """The points of each metric: their attributes, and the count and sum, or the value."""
        data = self.reader.get_metrics_data()
        return {
            metric.name: [
                (dict(point.attributes), getattr(point, "count", None) or point.value)
                for point in metric.data.data_points
            ]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def telemetry():
    telemetry = Telemetry()
    yield telemetry
    telemetry.tracer_provider.shutdown()
    telemetry.meter_provider.shutdown()


def cascade(second, **settings):
    stages = [CascadeStage(ByTable(dict.fromkeys(TEXTS, -1.0))), CascadeStage(second, 3)]
    return Reranker(Cascade(stages), log_level="debug", **settings)


# ---------------------------------------------------------------------- spans


@pytest.mark.parametrize("deadline", [None, 60])
@pytest.mark.parametrize("way", WAYS)
def test_the_tree_of_a_cascade(telemetry, way, deadline):
    """Within the caller's span, across the threads of scorers and questions."""
    inside = []

    def function(messages):
        with telemetry.tracer.start_as_current_span("inside the model"):
            inside.append(messages)
        return ranked(shown_in(messages))

    class Traced(ByTable):
        def score_pairs(self, query, documents):
            with telemetry.tracer.start_as_current_span("inside the scorer"):
                return super().score_pairs(query, documents)

    stages = [CascadeStage(Traced()), CascadeStage(Listwise(function, window=2, stride=1), 3)]
    reranker = Reranker(Cascade(stages), limits={"deadline": deadline})
    with telemetry.instrument(), telemetry.tracer.start_as_current_span("request"):
        rank(reranker, way, QUERY, TEXTS)
    asked = ("chat function", ("inside the model",))
    name = "by-table, then listwise by function"
    scored = ("by-table", ("score by-table", ("inside the scorer",)))
    cascade = (name, scored, ("listwise by function", asked, asked))
    assert telemetry.tree() == [("request", (f"rerank {name}", cascade))]
    assert len({span.context.trace_id for span in telemetry.spans}) == 1
    assert trace.get_current_span() is trace.INVALID_SPAN


def own(**values):
    return {f"secondpass.{name}": value for name, value in values.items()}


def test_attributes(telemetry):
    def reply(shown):
        return Completion(ranked(shown), True, 120, 8, units=1.5)

    reranker = cascade(Listwise(Model([always(BUSY), reply])), top_k=2)
    with telemetry.instrument():
        reranker.rerank(QUERY, TEXTS)
    attributes = [(span.name, dict(span.attributes)) for span in telemetry.spans]
    usage = {"calls": 3, "rounds": 2, "pairs": 7, "input_tokens": 120, "output_tokens": 8,
             "units": 1.5, "retries": 1, "repairs": 0, "cached": 0,
             "known": 0, "encoded": 0}  # fmt: skip
    ranking = {
        "openinference.span.kind": "RERANKER",
        "reranker.model_name": NAME,
        "reranker.top_k": 2,
        **own(candidates=4, status="ok", method=NAME, score_kind="rank", issues=("asked_again",)),
        **{f"secondpass.usage.{name}": value for name, value in usage.items()},
    }
    request = {
        "openinference.span.kind": "LLM",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "Model",
        "gen_ai.request.model": "model",
    }
    answered = {
        "gen_ai.usage.input_tokens": 120,
        "gen_ai.usage.output_tokens": 8,
        "secondpass.usage.units": 1.5,
        "gen_ai.response.finish_reasons": ("length",),
    }
    chain = {"openinference.span.kind": "CHAIN"}
    assert attributes == [
        (f"rerank {NAME}", ranking),
        (NAME, chain | own(texts=4, scored=4)),
        ("by-table", chain | own(texts=4, scored=4)),
        ("score by-table", chain | own(queries=1, pairs=4)),
        ("listwise by model", chain | own(texts=3, scored=3)),
        ("chat model", request | own(documents=3, attempt=1) | {"error.type": "server_error"}),
        ("chat model", request | own(documents=3, attempt=2, after="server_error") | answered),
    ]
    kinds = {span.kind for span in telemetry.spans if span.name == "chat model"}
    assert kinds == {trace.SpanKind.CLIENT}
    statuses = [span.status.status_code for span in telemetry.named("chat model")]
    assert statuses == [trace.StatusCode.ERROR, trace.StatusCode.UNSET]


def test_well_known_providers_have_their_names(telemetry, monkeypatch):
    for name in ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "COHERE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    methods = [
        {"type": "listwise", "llm": {"type": "google", "model": "gemini"}},
        {"type": "graded", "llm": {"type": "openai", "model": "gpt"}},
        {"type": "endpoint", "api": "cohere", "model": "rerank"},
    ]
    with telemetry.instrument():
        for method in methods:
            Reranker(method, log_level="debug", limits={"retries": 0}).rerank(QUERY, TEXTS)
    asked = [span for span in telemetry.spans if "gen_ai.provider.name" in span.attributes]
    assert [span.name for span in asked] == ["chat gemini", "chat gpt", "rerank rerank"]
    providers = [span.attributes["gen_ai.provider.name"] for span in asked]
    assert providers == ["gcp.gemini", "openai", "cohere"]
    server = [asked[2].attributes[f"server.{name}"] for name in ("address", "port")]
    assert server == ["api.cohere.com", 443]
    assert asked[2].attributes["openinference.span.kind"] == "RERANKER"


# ---------------------------------------------------------------------- texts

CANDIDATES = [
    Candidate("3 wombats", "w3", 0.5, {"source": "private.md", 5: object()}),
    Candidate("9 wombats", "w9", None, {}),
]


def everything(telemetry):
    spans = [(span.name, dict(span.attributes), list(span.events)) for span in telemetry.spans]
    return repr((spans, telemetry.metrics()))


def test_no_text_unless_asked(telemetry, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "sk-very-secret")
    remote = {"type": "openai", "model": "gpt", "base_url": "http://127.0.0.1:9/v1",
              "api_key_env": "SECRET_KEY", "timeout": 5}  # fmt: skip
    instruction = "Prefer the marsupials."
    second = {"type": "listwise", "llm": Model(ranked), "prompt": {"instruction": instruction}}
    reranker = Reranker(
        {"type": "listwise", "llm": remote},
        fallback=[{"type": "cascade", "stages": [{"method": ByTable()}, second]}],
        limits={"retries": 0},
        log_level="debug",
    )
    with telemetry.instrument():
        ranking = reranker.rerank(QUERY, CANDIDATES, context="the burrow")
        failing = Model(always(ValueError("9 wombats, sk-very-secret")))
        Reranker(Listwise(failing), log_level="debug").rerank(QUERY, CANDIDATES)
    assert ranking.report.status == "degraded"
    (span,) = telemetry.named("rerank listwise by gpt")
    assert span.attributes["secondpass.degraded_by"] == ("fallback",)
    told = everything(telemetry)
    assert "rerank_score" not in told
    for text in ("wombats", "sleep", "w3", "private", "secret", "marsupials", "burrow"):
        assert text not in told


def test_texts_if_asked(telemetry, monkeypatch):
    model = Model(ranked)
    with telemetry.instrument(content=True):
        Reranker(Listwise(model), top_k=1).rerank(QUERY, CANDIDATES)
    (ranking,) = telemetry.named("rerank listwise by model")
    shown = {
        name: value
        for name, value in ranking.attributes.items()
        if name.startswith("reranker.") and not name.endswith("metadata")
    }
    assert shown == {
        "reranker.model_name": "listwise by model",
        "reranker.top_k": 1,
        "reranker.query": QUERY,
        "reranker.input_documents.0.document.id": "w3",
        "reranker.input_documents.0.document.content": "3 wombats",
        "reranker.input_documents.0.document.score": 0.5,
        "reranker.input_documents.1.document.id": "w9",
        "reranker.input_documents.1.document.content": "9 wombats",
        "reranker.output_documents.0.document.id": "w9",
        "reranker.output_documents.0.document.content": "9 wombats",
        "reranker.output_documents.0.document.score": 1.0,
    }
    metadata = json.loads(ranking.attributes["reranker.input_documents.0.document.metadata"])
    assert metadata["source"] == "private.md"
    assert "rerank_score" in ranking.attributes["reranker.output_documents.0.document.metadata"]
    (request,) = telemetry.named("chat model")
    (asked,) = json.loads(request.attributes["gen_ai.input.messages"])
    (prompt,) = model.prompts
    assert asked == {"role": "user", "parts": [{"type": "text", "content": prompt.turns[0].text}]}
    (instructions,) = json.loads(request.attributes["gen_ai.system_instructions"])
    assert instructions == {"type": "text", "content": prompt.system}
    (reply,) = json.loads(request.attributes["gen_ai.output.messages"])
    assert reply["finish_reason"] == "stop"
    assert "ranking" in reply["parts"][0]["content"]


def test_a_reply_that_was_cut():
    (value,) = of_texts({"completion": Completion("text", cut=True)}).values()
    (message,) = json.loads(value)
    assert (message["parts"][0]["content"], message["finish_reason"]) == ("text", "length")


def test_candidates_of_any_kind_have_spans(telemetry, caplog):
    odd = [Candidate(None, None, float("nan"), None), Candidate("", 5, None, {"a": {1}, (): 2})]
    with telemetry.instrument(content=True):
        Reranker(ByTable(), log_level="debug").rerank(QUERY, odd)
    assert caplog.records == []
    (span,) = telemetry.named("rerank by-table")
    assert span.attributes["reranker.input_documents.1.document.id"] == "5"
    assert "reranker.input_documents.0.document.content" not in span.attributes


# ---------------------------------------------------------------------- metrics


def test_metrics(telemetry):
    def reply(shown):
        return Completion(ranked(shown), False, 120, 8)

    with telemetry.instrument():
        cascade(Listwise(Model([always(BUSY), reply]))).rerank(QUERY, TEXTS)
        Reranker(Answering(lambda count: None), log_level="debug").rerank(QUERY, TEXTS)
    ok = {"secondpass.method": NAME, "secondpass.status": "ok"}
    unchanged = {"secondpass.method": "answering", "secondpass.status": "unchanged"}
    asked = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "Model",
        "gen_ai.request.model": "model",
    }
    failed = {"error.type": "scores_no_list"}

    def tokens(labels):
        return [({**labels, "gen_ai.token.type": kind}, 1) for kind in ("input", "output")]

    methods = [({"secondpass.method": name}, 1) for name in ("by-table", "listwise by model", NAME)]
    models = {"secondpass.model": "by-table"}, {"secondpass.model": "answering", **failed}
    of_rankings = ("rankings", "ranking.duration", "candidates", "ranking.calls")
    assert telemetry.metrics() == {
        **{f"secondpass.{name}": [(ok, 1), (unchanged, 1)] for name in of_rankings},
        "secondpass.ranking.tokens": tokens(ok),
        "secondpass.issues": [
            ({"secondpass.issue.code": code}, 1) for code in ("asked_again", "scores_no_list")
        ],
        "secondpass.method.duration": [*methods, ({"secondpass.method": "answering", **failed}, 1)],
        "secondpass.scoring.duration": [(labels, 1) for labels in models],
        "secondpass.scoring.pairs": [(labels, 4) for labels in models],
        "gen_ai.client.operation.duration": [
            ({**asked, "error.type": "server_error"}, 1),
            (asked, 1),
        ],
        "gen_ai.client.token.usage": tokens(asked),
    }


# ---------------------------------------------------------------------- registration


@pytest.mark.parametrize("content", [False, True])
def test_a_second_registration_takes_the_place_of_the_first(telemetry, content):
    first = telemetry.instrument()
    other = Telemetry()
    with telemetry.instrument(content=content), other.instrument():
        Reranker("lexical").rerank(QUERY, TEXTS)
        first.close()  # has no effect any more
        Reranker("lexical").rerank(QUERY, TEXTS)
    assert len(telemetry.tree()) == len(other.tree()) == 2
    ((_, count),) = telemetry.metrics()["secondpass.rankings"]
    assert count == 2


def test_the_api_alone_is_enough():
    with instrument():  # the global providers, which record nothing
        assert Reranker("lexical").rerank(QUERY, TEXTS).report.status == "ok"


def test_without_the_package(monkeypatch):
    monkeypatch.setattr("secondpass.concurrency.lazy.is_installed", lambda module: False)
    with pytest.raises(MissingExtraError, match=r"\.\[otel\]"):
        instrument()
