"""The rows of the speed benchmarks: engines with their settings."""

from __future__ import annotations

from benchmarks.speed.direct_loop import BUDGETS
from benchmarks.speed.driver import Row

BASELINE = Row("sentence-transformers", "SentenceTransformers", "baseline")
AUTO = Row(
    "secondpass, auto", "SecondPass", "ours", settings={"backend": "auto", "precision": "auto"}
)
EXACT_ONNX = Row(
    "secondpass, exact, onnx",
    "SecondPass",
    "ours",
    settings={"backend": "onnx", "precision": "exact"},
)
EXACT_OPENVINO = Row(
    "secondpass, exact, openvino",
    "SecondPass",
    "ours",
    settings={"backend": "openvino", "precision": "exact"},
)
TORCH = Row("secondpass, torch", "SecondPass", "ours", settings={"backend": "torch"})
OURS = [AUTO, EXACT_ONNX, EXACT_OPENVINO, TORCH]
RUNTIMES = ("openvino", "openvino-float32", "onnxruntime")
LOOPS = {
    runtime: [
        Row(
            f"loop, {runtime}, {budget} tokens",
            "DirectLoop",
            "loop",
            settings={"runtime": runtime, "budget": budget},
        )
        for budget in BUDGETS
    ]
    for runtime in RUNTIMES
}
PEERS = [
    Row(
        "sentence-transformers, bf16",
        "SentenceTransformers",
        "peer",
        settings={"dtype": "bfloat16"},
    ),
    Row(
        "sentence-transformers, onnx",
        "SentenceTransformers",
        "peer",
        "sentence-transformers-onnx",
        {"backend": "onnx"},
    ),
    Row(
        "sentence-transformers, openvino",
        "SentenceTransformers",
        "peer",
        "sentence-transformers-openvino",
        {"backend": "openvino"},
    ),
    Row("FlashRank", "FlashRank", "peer", "flashrank"),
    Row("rerankers", "Rerankers", "peer", "rerankers"),
    Row("fastembed", "FastEmbed", "peer", "fastembed"),
    Row("infinity", "Infinity", "peer", "infinity"),
    Row("Haystack's ranker", "Haystack", "peer", "haystack"),
    Row("LlamaIndex's reranker", "LlamaIndex", "peer", "llama-index"),
]
PROBABILITIES = {"FlashRank", "LlamaIndex's reranker"}
"""Rows whose engine always applies a sigmoid."""
PEAKS = [
    Row("peak, float32", "Peak", "peak", settings={"dtype": "float32"}),
    Row("peak, bfloat16", "Peak", "peak", settings={"dtype": "bfloat16"}),
]
