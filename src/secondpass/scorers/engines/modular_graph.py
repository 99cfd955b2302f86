"""ModernBERT with modules that score its first token, such as Ettin, as an ONNX graph.

Such a model has no file that scores in another form than torch's: the usual export is of its
encoder only. So the graph is written from its weights when it is loaded, without torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass.scorers.minilm_graph import GraphWriter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FLOAT = 1
"""ONNX's number of the element type float32."""
_MASKED = -10_000.0
"""Added to the attention to tokens that are not read, whose weight is then 0."""
_LARGEST = 1_000_000_000
"""Bytes of a checkpoint. A graph is held in memory several times, and has 2 GB at most."""
_ACTIVATIONS = {"linear.Identity": "", "activation.GELU": "Gelu", "activation.Tanh": "Tanh"}
"""Operators of torch's activations, by their names in ``torch.nn.modules``."""


def build(read: Callable[[str], Any], find: Callable[[str], Path | None]) -> bytes:
    """The ONNX model of a model's scores.

    Args:
        read: the content of a JSON file of the model; None if there is none.
        find: the path of a file of the model; None if there is none.

    Returns:
        The model. Its inputs are ``input_ids`` and ``attention_mask``, int64 of the shape (batch,
        tokens); its output is the score, float32 of the shape (batch, 1).

    Raises:
        ValueError: it computes something else; the message says what.
        KeyError: a weight is missing.
    """
    config, modules = read("config.json") or {}, read("modules.json") or []
    if config.get("auto_map") or config.get("model_type") != "modernbert":
        raise ValueError("is no ModernBERT")
    own = read("config_sentence_transformers.json") or {}
    if own.get("model_type") != "CrossEncoder":
        raise ValueError("was not saved as a CrossEncoder")
    encoder = (read("sentence_bert_config.json") or {}).get("modality_config") or {}
    if encoder.get("text", {}).get("method_output_name", _STATE) != _STATE:
        raise ValueError("does not read the state of its encoder")
    kinds = [_kind(module) for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or {*kinds[2:]} - {"Dense", "LayerNorm"}:
        raise ValueError(f"has the modules {', '.join(map(str, kinds))}")
    folders = [str(module["path"]) for module in modules]
    settings = [read(f"{folder}/config.json") or {} for folder in folders[1:]]
    if settings[0].get("pooling_mode") != "cls":
        raise ValueError("does not pool its first token")
    graph = _Graph(config, _tensors(find, folders[0]))
    state = graph.encoded()
    for kind, folder, its in zip(kinds[2:], folders[2:], settings[1:], strict=True):
        tensors = _tensors(find, folder)
        if kind == "LayerNorm":
            state = graph.normalized(state, "norm", tensors, 1e-5)
            continue
        is_last = folder == folders[-1]
        ends = its.get("module_input_name"), its.get("module_output_name")
        activation = str(its.get("activation_function")).removeprefix("torch.nn.modules.")
        if (
            activation not in _ACTIVATIONS
            or its.get("use_residual")
            or ends != ("sentence_embedding", "scores" if is_last else "sentence_embedding")
        ):
            raise ValueError(f"has another form of the module {folder}")
        state = graph.linear("linear", state, tensors)
        if operator := _ACTIVATIONS[activation]:
            state = graph.gelu(state) if operator == "Gelu" else graph.node(operator, state)
    if kinds[-1] != "Dense" or settings[-1].get("out_features") != 1:
        raise ValueError("does not end with one score")
    return graph.writer.model(state, ("batch", 1))


_STATE = "last_hidden_state"


def _kind(module: Mapping[str, Any]) -> str:
    """The class of a module of sentence-transformers; others keep their whole name."""
    name = str(module.get("type"))
    return name.rpartition(".")[2] if name.startswith("sentence_transformers.") else name


class _Graph:
    """The encoder, and the operations of its modules."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        self.config = config
        prefix = "model." if "model.final_norm.weight" in tensors else ""
        self.tensors = {key.removeprefix(prefix): value for key, value in tensors.items()}
        self.writer = GraphWriter(["input_ids", "attention_mask"])
        writer = self.writer
        self.node, self.constant = writer.node, writer.constant
        self.number, self.ints, self.gelu = writer.number, writer.ints, writer.gelu
        if not all(isinstance(config.get(size), int) for size in _SIZES):
            raise ValueError("has sizes that its config.json does not name")
        self.heads, self.width, self.layers, self.longest, words = (
            int(config[size]) for size in _SIZES
        )
        self.size = self.width // self.heads
        if config.get("hidden_activation", "gelu") != "gelu" or config.get("rope_scaling"):
            raise ValueError("has another activation, or scaled positions")
        if self.tensors[_WORDS].shape != (words, self.width):
            raise ValueError("has a checkpoint of other sizes than its config.json")

    def encoded(self) -> str:
        """The state of the first token, of the shape (batch, width)."""
        import numpy as np

        node, config = self.node, self.config
        state = node("Gather", self.constant(self.tensors[_WORDS]), "input_ids")
        state = self.normalized(state, "embeddings.norm")
        self.length = node("Slice", node("Shape", "input_ids"), self.ints(1), self.ints(2))
        self.positions = self._first_rows(np.arange(self.longest))
        mask = node("Unsqueeze", node("Cast", "attention_mask", to=_FLOAT), self.ints(1, 2))
        everywhere = node("Mul", node("Sub", self.number(1), mask), self.number(_MASKED))
        # The positions of the rows and of the columns of a window around each token.
        ends = [node("Unsqueeze", self.positions, self.ints(axis)) for axis in (1, 0)]
        window = self.writer.constant(np.array(config.get("local_attention", 128) // 2))
        far = node("Greater", node("Abs", node("Sub", *ends)), window)
        near = node("Mul", node("Cast", far, to=_FLOAT), self.number(_MASKED))
        masks = {"full_attention": everywhere, "sliding_attention": node("Add", everywhere, near)}
        angles = {kind: self._angles(kind) for kind in masks}
        every = config.get("global_attn_every_n_layers", 3)
        kinds = config.get("layer_types") or [
            "sliding_attention" if layer % every else "full_attention"
            for layer in range(self.layers)
        ]
        if len(kinds) != self.layers or {*kinds} - {*masks}:
            raise ValueError("has other kinds of attention")
        for layer, kind in enumerate(kinds):
            state = self._layer(layer, state, masks[kind], angles[kind])
        first = node("Gather", state, self.writer.constant(np.array(0)), axis=1)
        return self.normalized(first, "final_norm")

    def _layer(self, layer: int, state: str, mask: str, angles: tuple[str, str]) -> str:
        node, name = self.node, f"layers.{layer}"
        # The first layer reads what was just normalized.
        read = self.normalized(state, f"{name}.attn_norm") if layer else state
        asking = read
        if layer == self.layers - 1:  # only the first token is read
            mask = self._first(mask, axis=2)
            asking, state = self._first(read, axis=1), self._first(state, axis=1)
            cosine, sine = angles
            turned = self._first(cosine, axis=0), self._first(sine, axis=0)
        else:
            turned = angles
        # Scaling the queries' weights saves scaling the products.
        parts = [
            self.linear(f"{name}.attn.Wqkv", source, part=(number, 3), scale=scale)
            for number, (source, scale) in enumerate(
                [(asking, self.size**-0.5), (read, 1.0), (read, 1.0)]
            )
        ]
        shape = self.ints(0, 0, self.heads, self.size)
        query, key, value = (
            node("Transpose", node("Reshape", part, shape), perm=(0, 2, 1, 3)) for part in parts
        )
        key = node("Transpose", self._turned(key, *angles), perm=(0, 1, 3, 2))
        weights = node("Add", node("MatMul", self._turned(query, *turned), key), mask)
        mixed = node("MatMul", node("Softmax", weights, axis=-1), value)
        mixed = node("Transpose", mixed, perm=(0, 2, 1, 3))
        mixed = node("Reshape", mixed, self.ints(0, 0, self.width))
        state = node("Add", state, self.linear(f"{name}.attn.Wo", mixed))
        read = self.normalized(state, f"{name}.mlp_norm")
        inner, gate = (self.linear(f"{name}.mlp.Wi", read, part=(part, 2)) for part in (0, 1))
        inner = node("Mul", self.gelu(inner), gate)
        return node("Add", state, self.linear(f"{name}.mlp.Wo", inner))

    def _first(self, values: str, axis: int) -> str:
        return self.node("Slice", values, self.ints(0), self.ints(1), self.ints(axis))

    def _angles(self, kind: str) -> tuple[str, str]:
        """Cosine and sine of the positions, of the shape (tokens, size)."""
        import numpy as np

        rope = (self.config.get("rope_parameters") or {}).get(kind) or {}
        if rope.get("rope_type", "default") != "default":
            raise ValueError("has scaled positions")
        older, default = _THETAS[kind]
        theta = rope.get("rope_theta") or self.config.get(older, default)
        steps = 1 / theta ** (np.arange(0, self.size, 2, dtype=np.float32) / self.size)
        positions = np.arange(self.longest, dtype=np.float32)
        angles = np.tile(np.outer(positions, steps.astype(np.float32)), 2)
        return self._first_rows(np.cos(angles)), self._first_rows(np.sin(angles))

    def _turned(self, state: str, cosine: str, sine: str) -> str:
        """Queries or keys with their positions, in the operators that OpenVINO recognises."""
        node, half = self.node, self.size // 2
        first, second = (
            node("Slice", state, self.ints(start), self.ints(end), self.ints(3))
            for start, end in ((0, half), (half, self.size))
        )
        other = node("Concat", node("Neg", second), first, axis=-1)
        return node("Add", node("Mul", state, cosine), node("Mul", other, sine))

    def _first_rows(self, array: NDArray[Any]) -> str:
        """As many rows of a constant as there are tokens."""
        return self.node("Slice", self.constant(array), self.ints(0), self.length, self.ints(0))

    def linear(
        self,
        name: str,
        state: str,
        tensors: Mapping[str, NDArray[Any]] | None = None,
        *,
        part: tuple[int, int] = (0, 1),
        scale: float = 1.0,
    ) -> str:
        """A product, with a bias if there is one; of one of several parts of the outputs."""
        import numpy as np

        tensors = self.tensors if tensors is None else tensors
        index, count = part
        matrix = np.split(tensors[f"{name}.weight"], count)[index] * np.float32(scale)
        product = self.node("MatMul", state, self.constant(np.ascontiguousarray(matrix.T)))
        bias = tensors.get(f"{name}.bias")
        if bias is None:
            return product
        own = np.split(bias, count)[index] * np.float32(scale)
        return self.node("Add", product, self.constant(own))

    def normalized(
        self,
        state: str,
        name: str,
        tensors: Mapping[str, NDArray[Any]] | None = None,
        epsilon: float | None = None,
    ) -> str:
        """Layer normalization, with a bias if there is one."""
        tensors = self.tensors if tensors is None else tensors
        epsilon = self.config.get("norm_eps", 1e-5) if epsilon is None else epsilon
        weights = [self.constant(tensors[f"{name}.weight"])]
        if (bias := tensors.get(f"{name}.bias")) is not None:
            weights.append(self.constant(bias))
        return self.node("LayerNormalization", state, *weights, axis=-1, epsilon=epsilon)


_SIZES = (
    "num_attention_heads",
    "hidden_size",
    "num_hidden_layers",
    "max_position_embeddings",
    "vocab_size",
)
_WORDS = "embeddings.tok_embeddings.weight"
_THETAS = {
    "full_attention": ("global_rope_theta", 160_000.0),
    "sliding_attention": ("local_rope_theta", 10_000.0),
}
"""Older names of the positions' bases, and their defaults."""


def _tensors(find: Callable[[str], Path | None], folder: str) -> dict[str, NDArray[np.float32]]:
    """The weights of a module, from ``model.safetensors`` in its folder.

    Raises:
        ValueError: there is no such file, it is damaged, or too large.
    """
    import numpy as np

    path = find(f"{folder}/model.safetensors" if folder else "model.safetensors")
    if path is None:
        raise ValueError("has no model.safetensors for each module")
    if path.stat().st_size > _LARGEST:
        raise ValueError("is too large for a graph in memory")
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors: dict[str, NDArray[np.float32]] = {}
    try:
        for name, its in json.loads(data[8:start]).items():
            if name != "__metadata__":
                first, last = (start + offset for offset in its["data_offsets"])
                numbers = np.frombuffer(data[first:last], _DTYPES[its["dtype"]])
                if its["dtype"] == "BF16":  # the upper half of a float32
                    numbers = (numbers.astype("<u4") << 16).view("<f4")
                tensors[name] = numbers.astype(np.float32).reshape(its["shape"])
    except (KeyError, ValueError):
        raise ValueError("has weights that cannot be read without torch") from None
    return tensors


_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
