"""One class per engine: how each package loads the model and scores a query's passages.

``prepare(query, passages)`` converts to the package's own types, which is not measured,
and returns the call that is. The call returns one score per passage, in the order of the input.
Packages are imported in the constructors, each in its own environment.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

Call = Callable[[], Sequence[float]]
MAX_LENGTH = 512


@dataclass(frozen=True)
class Setup:
    """How an engine is created.

    Args:
        settings: of the row.
        model: folder of the model.
        scratch: a folder for files that the engine needs.
        threads: number of threads.
    """

    settings: dict[str, Any]
    model: Path
    scratch: Path
    threads: int


class SecondPass:
    """This project. ``settings`` are those of the scorer ``cross_encoder``."""

    packages = ("secondpass", "onnxruntime", "openvino", "torch")

    def __init__(self, setup: Setup) -> None:
        from secondpass import Reranker

        method: dict[str, Any] = {
            "type": "cross_encoder",
            "model": str(setup.model),
            "max_length": MAX_LENGTH,
            "known_answers": False,  # the head of the model is random
        }
        if setup.settings.get("backend") == "torch":
            _limit_torch(setup.threads)
        else:
            method["threads"] = setup.threads
        self.reranker = Reranker({**method, **setup.settings}, depth=None)
        self.engines: list[dict[str, Any]] = []

    def prepare(self, query: str, passages: Sequence[str]) -> Call:
        from benchmarks.checked import check

        def call() -> Sequence[float]:
            ranking = self.reranker.rerank(query, list(passages))
            check(ranking.report)
            self.engines = list(ranking.report.to_dict().get("engines", []))
            scores = [0.0] * len(passages)
            for item in ranking:
                scores[item.position] = item.rerank_score
            return scores

        return call


class DirectLoop:
    """The hand-written loop; ``budget`` is the maximum number of tokens per batch."""

    packages = ("onnxruntime", "openvino", "tokenizers")

    def __init__(self, setup: Setup) -> None:
        from benchmarks.speed.direct_loop import Loop

        self._loop = Loop(setup.model, setup.settings["runtime"], setup.threads, MAX_LENGTH)
        self._budget = setup.settings["budget"]

    def prepare(self, query: str, passages: Sequence[str]) -> Call:
        return lambda: self._loop.score(query, passages, self._budget)


class SentenceTransformers:
    """``CrossEncoder.predict`` with logits; ``dtype`` and ``backend`` are its own settings."""

    packages = ("sentence-transformers", "transformers", "torch", "optimum", "openvino")

    def __init__(self, setup: Setup) -> None:
        _limit_torch(setup.threads)
        import torch
        from sentence_transformers import CrossEncoder

        settings = setup.settings
        backend = settings.get("backend", "torch")
        kwargs: dict[str, Any] = {}
        if "dtype" in settings:
            kwargs["dtype"] = getattr(torch, settings["dtype"])
        if backend == "onnx":
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = setup.threads
            kwargs.update(session_options=options, provider="CPUExecutionProvider")
            kwargs["file_name"] = "model.onnx"
        if backend == "openvino":
            kwargs["ov_config"] = {"INFERENCE_NUM_THREADS": setup.threads}
            kwargs["file_name"] = "openvino_model.xml"
        self._model = CrossEncoder(
            str(setup.model),
            device="cpu",
            max_length=MAX_LENGTH,
            backend=backend,
            model_kwargs=kwargs,
            local_files_only=True,
        )
        self._identity = torch.nn.Identity()

    def prepare(self, query: str, passages: Sequence[str]) -> Call:
        pairs = [(query, passage) for passage in passages]

        def call() -> Sequence[float]:
            scores = self._model.predict(
                pairs, activation_fn=self._identity, show_progress_bar=False
            )
            return [float(score) for score in scores]

        return call


class FlashRank:
    """Loads models by its own names only, so the model's files are copied to one of them."""

    packages = ("flashrank", "onnxruntime", "tokenizers")

    def __init__(self, setup: Setup) -> None:
        import onnxruntime

        name, file = "ms-marco-MiniLM-L-12-v2", "flashrank-MiniLM-L-12-v2_Q.onnx"
        folder = setup.scratch / "flashrank" / name
        if not folder.is_dir():
            folder.mkdir(parents=True)
            for path in setup.model.glob("*.json"):
                shutil.copy(path, folder)
            shutil.copy(setup.model / "onnx" / "model.onnx", folder / file)
        # It has no setting for threads.
        create = onnxruntime.InferenceSession
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = setup.threads
        onnxruntime.InferenceSession = lambda path: create(path, options)
        from flashrank import Ranker, RerankRequest

        self._ranker = Ranker(name, cache_dir=str(folder.parent), max_length=MAX_LENGTH)
        self._request = RerankRequest

    def prepare(self, query: str, passages: Sequence[str]) -> Call:
        items = [{"id": index, "text": passage} for index, passage in enumerate(passages)]

        def call() -> Sequence[float]:
            results = self._ranker.rerank(self._request(query=query, passages=items))
            return _in_order((item["id"], item["score"]) for item in results)

        return call


class FastEmbed:
    packages = ("fastembed", "onnxruntime", "tokenizers")

    def __init__(self, setup: Setup) -> None:
        from fastembed.common.model_description import ModelSource
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        name = "benchmark/model"
        TextCrossEncoder.add_custom_model(model=name, sources=ModelSource(hf=name))
        self._model = TextCrossEncoder(
            name, specific_model_path=str(setup.model), threads=setup.threads
        )

    def prepare(self, query: str, passages: Sequence[str]) -> Call:
        return lambda: [float(score) for score in self._model.rerank(query, list(passages))]


class Rerankers:
    packages = ("rerankers", "transformers", "torch")

    def __init__(self, setup: Setup) -> None:
        _limit_torch(setup.threads)
        from rerankers import Reranker

        self._ranker = Reranker(
            str(setup.model), model_type="cross-encoder", device="cpu", verbose=0
        )
        if self._ranker is None:
            raise RuntimeError("rerankers could not load the model and printed why")

    def prepare(self, query: str, passages: Sequence[str]) -> Call:
        identifiers = list(range(len(passages)))

        def call() -> Sequence[float]:
            results = self._ranker.rank(query=query, docs=list(passages), doc_ids=identifiers)
            return _in_order((item.document.doc_id, item.score) for item in results.results)

        return call


class Infinity:
    packages = ("infinity-emb", "sentence-transformers", "transformers", "torch")

    def __init__(self, setup: Setup) -> None:
        _limit_torch(setup.threads)
        from infinity_emb import EngineArgs, SyncEngineArray

        self._name = str(setup.model)
        arguments = EngineArgs(
            model_name_or_path=self._name,
            engine="torch",
            device="cpu",
            dtype="float32",
            bettertransformer=False,
            model_warmup=False,
            served_model_name=self._name,
        )
        self._engines = SyncEngineArray.from_args([arguments])
        _limit_torch(setup.threads)

    def prepare(self, query: str, passages: Sequence[str]) -> Call:
        def call() -> Sequence[float]:
            future = self._engines.rerank(
                model=self._name, query=query, docs=list(passages), raw_scores=True
            )
            results, _ = future.result()
            return _in_order((item.index, item.relevance_score) for item in results)

        return call

    def close(self) -> None:
        self._engines.stop()


class Haystack:
    packages = ("sentence-transformers-haystack", "haystack-ai", "sentence-transformers", "torch")

    def __init__(self, setup: Setup) -> None:
        _limit_torch(setup.threads)
        from haystack import Document
        from haystack.utils import ComponentDevice

        rankers = import_module("haystack_integrations.components.rankers.sentence_transformers")
        self._ranker = rankers.SentenceTransformersSimilarityRanker(
            model=str(setup.model),
            device=ComponentDevice.from_str("cpu"),
            scale_score=False,
            tokenizer_kwargs={"model_max_length": MAX_LENGTH},
        )
        self._ranker.warm_up()
        self._document = Document

    def prepare(self, query: str, passages: Sequence[str]) -> Call:
        # With ids: the default is a hash of the content, which would merge equal texts.
        documents = [self._document(id=str(i), content=text) for i, text in enumerate(passages)]

        def call() -> Sequence[float]:
            results = self._ranker.run(query=query, documents=documents, top_k=len(documents))
            return _in_order((int(item.id), item.score) for item in results["documents"])

        return call


class LlamaIndex:
    packages = ("llama-index-core", "sentence-transformers", "torch")

    def __init__(self, setup: Setup) -> None:
        _limit_torch(setup.threads)
        from llama_index.core.postprocessor import SentenceTransformerRerank
        from llama_index.core.schema import NodeWithScore, TextNode

        self._ranker = SentenceTransformerRerank(
            model=str(setup.model), device="cpu", top_n=100_000
        )
        self._node = lambda i, text: NodeWithScore(node=TextNode(id_=str(i), text=text), score=0.0)

    def prepare(self, query: str, passages: Sequence[str]) -> Call:
        nodes = [self._node(index, passage) for index, passage in enumerate(passages)]

        def call() -> Sequence[float]:
            results = self._ranker.postprocess_nodes(nodes, query_str=query)
            return _in_order((int(item.node.node_id), item.score) for item in results)

        return call


class Peak:
    """The machine's peak: products of square matrices in ``dtype``, the best of torch, numpy and
    OpenVINO, none of which is the fastest on every processor. The score is FLOP per CPU second.
    """

    packages = ("torch", "numpy", "openvino")

    def __init__(self, setup: Setup) -> None:
        _limit_torch(setup.threads)
        import torch

        dtype = setup.settings["dtype"]
        width = setup.settings.get("width", 2048)
        self._flop = 2.0 * width**3
        first, second = (torch.randn(width, width) for _ in range(2))
        reduced = [matrix.to(getattr(torch, dtype)) for matrix in (first, second)]
        self._products: list[Callable[[], Any]] = [lambda: torch.matmul(*reduced)]
        if dtype == "float32":
            self._products.append(lambda: first.numpy() @ second.numpy())
        try:
            import openvino
        except ImportError:
            return
        shape = openvino.PartialShape([width, width])
        inputs = [openvino.opset8.parameter(shape, openvino.Type.f32) for _ in range(2)]
        model = openvino.Model([openvino.opset8.matmul(*inputs, False, False)], inputs)
        hint = {"float32": "f32", "bfloat16": "bf16"}[dtype]
        threads = {"INFERENCE_NUM_THREADS": setup.threads, "INFERENCE_PRECISION_HINT": hint}
        request = openvino.compile_model(model, "CPU", threads).create_infer_request()
        arrays = [first.numpy(), second.numpy()]
        self._products.append(lambda: request.infer(arrays, share_inputs=True))

    def prepare(self, _query: str, _passages: Sequence[str]) -> Call:
        import torch

        def call() -> Sequence[float]:
            rates = []
            with torch.inference_mode():
                for product in self._products:
                    for _ in range(6):
                        started = time.process_time()
                        product()
                        rates.append(self._flop / (time.process_time() - started))
            return [max(rates)]

        return call


class Fake:
    """Lengths of the passages as scores: tests the driver without a model."""

    packages = ()

    def __init__(self, setup: Setup) -> None:
        self._settings = setup.settings
        self._calls = 0

    def prepare(self, _query: str, passages: Sequence[str]) -> Call:
        def call() -> Sequence[float]:
            self._calls += 1
            if "error" in self._settings:
                raise RuntimeError(self._settings["error"])
            if self._calls > 1 and "exit" in self._settings:
                os._exit(self._settings["exit"])
            time.sleep(self._settings.get("sleep", 0))
            print("packages print to stdout")
            # CPU time that clocks can resolve.
            return [sum(map(len, passage.split() * 200)) / 200 for passage in passages]

        return call


ENGINES: dict[str, type[Any]] = {
    engine.__name__: engine
    for engine in (
        SecondPass,
        DirectLoop,
        SentenceTransformers,
        FlashRank,
        FastEmbed,
        Rerankers,
        Infinity,
        Haystack,
        LlamaIndex,
        Peak,
        Fake,
    )
}


def _limit_torch(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def _in_order(scored: Any) -> list[float]:
    scores = dict(scored)
    return [float(scores[index]) for index in range(len(scores))]
