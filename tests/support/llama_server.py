"""A llama.cpp server on the loopback, and models of half a megabyte for it to serve.

The server is the one inside the package ``xllamacpp``. It runs in a process of its own, so that
neither its threads nor its logs nor a crash of it reach the tests, and ends with them: its standard
input is a pipe whose other end the tests hold.

Run as a script, this file is that process.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def missing_packages(*names: str) -> list[str]:
    """Those of the packages that are not installed; none of them is imported for the answer."""
    return [name for name in names if importlib.util.find_spec(name) is None]


@contextmanager
def serve(
    model: Path,
    *,
    context: int = 8192,
    parallel: int = 1,
    longest_reply: int = 1024,
    rerank: bool = False,
    key: str | None = None,
) -> Iterator[str]:
    """Serve a GGUF file while the block runs; the base URL, which ends in ``/v1``.

    Args:
        model: the GGUF file.
        context: tokens that one request may have, its reply included.
        parallel: requests that are answered at the same time.
        longest_reply: tokens after which a reply is cut where the request does not say.
        rerank: whether the model is a cross-encoder, for ``/v1/rerank``.
        key: the key that requests must show; none where it is None.
    """
    options = [str(model), context, parallel, longest_reply, rerank, key]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        with process:
            assert process.stdout is not None
            try:
                # Whatever else the library prints comes before the address.
                lines = (line for line in process.stdout if line.startswith(b"serving "))
                address = next(lines, None)
                if address is None:
                    log.seek(0)
                    output = log.read()[-2000:].decode(errors="replace")
                    raise RuntimeError(f"the server did not start: {output}")
                yield address.split()[1].decode() + "/v1"
            finally:
                process.kill()  # nothing of it is kept, so it need not end in good order


def write_tiny_cross_encoder(path: Path) -> Path:
    """A BERT with a classification head of one label, of random weights, for ``/v1/rerank``."""
    import gguf
    import numpy as np

    from tiny_models import WORDS

    width, heads, inner, layers, length = 32, 2, 64, 2, 512
    # The WordPiece of llama.cpp marks the start of a word instead of its continuation.
    tokens = [word if word.startswith("[") else f"▁{word}" for word in WORDS]
    rng = np.random.default_rng(0)

    def noise(*shape: int) -> Any:
        return rng.normal(0, 0.5, shape).astype(np.float32)

    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("tiny random cross-encoder")
    writer.add_context_length(length)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.RANK)
    writer.add_classifier_output_labels(["relevance"])
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")
    writer.add_token_list(tokens)
    kinds = (gguf.TokenType.NORMAL, gguf.TokenType.CONTROL)
    writer.add_token_types([kinds[token.startswith("[")] for token in tokens])
    writer.add_token_type_count(2)
    writer.add_pad_token_id(WORDS.index("[PAD]"))
    writer.add_unk_token_id(WORDS.index("[UNK]"))
    writer.add_bos_token_id(WORDS.index("[CLS]"))
    writer.add_eos_token_id(WORDS.index("[SEP]"))
    writer.add_sep_token_id(WORDS.index("[SEP]"))
    writer.add_mask_token_id(WORDS.index("[MASK]"))

    def linear(name: str, rows: int, columns: int) -> None:
        writer.add_tensor(f"{name}.weight", noise(rows, columns))
        writer.add_tensor(f"{name}.bias", noise(rows))

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(width, np.float32))

    writer.add_tensor("token_embd.weight", noise(len(tokens), width))
    writer.add_tensor("token_types.weight", noise(2, width))
    writer.add_tensor("position_embd.weight", noise(length, width))
    norm("token_embd_norm")
    for block in range(layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            linear(f"blk.{block}.{name}", width, width)
        norm(f"blk.{block}.attn_output_norm")
        linear(f"blk.{block}.ffn_up", inner, width)
        linear(f"blk.{block}.ffn_down", width, inner)
        norm(f"blk.{block}.layer_output_norm")
    linear("cls", width, width)
    linear("cls.output", 1, width)
    return written(writer, path)


def written(writer: Any, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _serve_until_the_tests_end(
    model: str, context: int, parallel: int, longest_reply: int, rerank: bool, key: str | None
) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.port = 0
    params.n_parallel = parallel
    params.n_ctx = context * parallel  # it is shared out among them
    params.n_predict = longest_reply
    # Tiny models and busy machines are slower with more.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.seed = 1
    params.ui = params.warmup = params.fit_params = False
    params.cache_prompt = False  # so that a request's reply does not depend on those before it
    params.endpoint_metrics = True
    if key is not None:
        params.api_keys = [key]
    if rerank:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK
    server = xllamacpp.Server(params)
    sys.stdout.write(f"serving {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    del server


if __name__ == "__main__":
    _serve_until_the_tests_end(*json.loads(sys.argv[1]))
