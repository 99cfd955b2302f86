"""Models by name, and what is said of one that cannot be loaded."""

import hashlib
import json
import re
import threading
import time
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from types import SimpleNamespace
from urllib.parse import urlsplit

import huggingface_hub
import pytest
from huggingface_hub import constants

import family_models as families
from checkpoint_folders import edit
from rotation import rotated
from secondpass import ModelLoadError
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.hub import model as scorers_hub
from secondpass.scorers.hub.model import HubModel
from static_models import write_static
from tiny_models import write_classifier, write_late_interaction, write_onnx

# ---------------------------------------------------------------------- a hub on the loopback


COMMIT = "c0ffee" + "0" * 34


class LoopbackHub:
    """Serves folders as models, on the routes that `huggingface_hub` uses to load them.

    ``answer`` decides by the path within the hub how a request is answered: a status, ``gated``,
    ``hang``, ``cut`` (in the middle of the file), or None as the hub does.
    """

    def __init__(self, models):
        self.models = models
        self.answer = lambda path: None
        self.requests = []
        self.over = threading.Event()

        class Handler(_Handler):
            hub = self

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()  # ends answers that hang
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)

    def downloads(self):
        """The files that were downloaded, sorted."""
        return sorted(
            path.split(f"/resolve/{COMMIT}/")[-1].split("/resolve/main/")[-1]
            for method, path in self.requests
            if method == "GET" and "/resolve/" in path
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._serve()

    def do_GET(self):
        self._serve()

    def _serve(self):
        path = urlsplit(self.path).path
        self.hub.requests.append((self.command, path))
        answer = self.hub.answer(path)
        if answer == "hang":
            self.hub.over.wait(60)
            self.close_connection = True
        elif isinstance(answer, int):
            self._send(answer, b"")
        elif answer == "gated":
            self._send(401, b"", **{"X-Error-Code": "GatedRepo"})
        elif path.startswith("/api/models/"):
            self._describe(path.removeprefix("/api/models/"))
        else:
            self._resolve(path, cut=answer == "cut")

    def _describe(self, path):
        name = "/".join(path.split("/")[:2])
        folder = self.hub.models.get(name)
        if folder is None:
            return self._lacks("Repo")
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        sizes = {str(path.relative_to(folder)): path.stat().st_size for path in paths}
        if "/tree/" in path:
            below = path.partition("/tree/")[2].partition("/")[2]
            content = [
                {"type": "file", "path": file, "size": size, "oid": "0"}
                for file, size in sizes.items()
                if file.startswith(below)
            ]
            if not content:
                return self._lacks("Entry")
        else:
            siblings = [{"rfilename": file} for file in sizes]
            content = {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings, "tags": []}
        return self._send(200, json.dumps(content).encode(), **{"Content-Type": "application/json"})

    def _resolve(self, path, cut):
        name, _, rest = path.lstrip("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        folder = self.hub.models.get(name)
        commit = {"X-Repo-Commit": COMMIT}
        if folder is None:
            return self._lacks("Repo")
        if revision not in ("main", COMMIT):
            return self._lacks("Revision")
        if not (folder / file).is_file():
            return self._lacks("Entry", **commit)
        content = (folder / file).read_bytes()
        start = int(self.headers.get("Range", "bytes=0-")[len("bytes=") :].partition("-")[0])
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        if start:
            commit["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self._send(206 if start else 200, content[start:], cut=cut, ETag=etag, **commit)

    def _lacks(self, what, **headers):
        self._send(404, b"", **{"X-Error-Code": f"{what}NotFound"}, **headers)

    def _send(self, status, body, *, cut=False, **headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            resumed = "Content-Range" in headers
            self.wfile.write(body[: 0 if resumed else len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut


@contextmanager
def loopback_hub(models):
    """A hub that this process takes for the Hugging Face hub."""
    with LoopbackHub(models) as hub, pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", hub.url)
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(huggingface_hub.hf_api.api, "endpoint", hub.url)
        patch.setattr("transformers.utils.hub._hf_api", None)
        impatient = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
        patch.setattr(huggingface_hub.file_download, "time", impatient)
        huggingface_hub.utils.close_session()
        yield hub
        huggingface_hub.utils.close_session()


# ---------------------------------------------------------------------- models by name


UNREACHABLE = "the hub was not contacted, as local_files_only is set"


@pytest.fixture
def cache(tmp_path):
    """A cache of the hub with one revision of one model."""
    cached = tmp_path / "models--some--model"
    (cached / "snapshots" / "c0ffee").mkdir(parents=True)
    (cached / "snapshots" / "c0ffee" / "config.json").write_text("{}")
    return str(tmp_path)


LACKING = [
    ("some/other", None, "no such folder"),
    ("some/other", "v2", "no such folder"),
    ("some/model", None, "its revision 'main' is not in the cache"),
    ("some/model", "v2", "its revision 'v2' is not in the cache"),
]


@pytest.mark.parametrize(("row", "backend"), rotated(LACKING, ["onnx", "torch", "colbert"]))
def test_what_a_cache_lacks(cache, row, backend):
    name, revision, reason = row
    settings = {"revision": revision, "cache_folder": cache, "local_files_only": True}
    backends = {"family": "colbert"} if backend == "colbert" else {"backend": backend}
    with pytest.raises(ModelLoadError, match=f"{re.escape(f'{reason}, and {UNREACHABLE}')}$"):
        CrossEncoderScorer(name, **settings, **backends).warm_up()


def test_a_hub_that_a_variable_turns_off(cache, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    scorer = CrossEncoderScorer("some/other", cache_folder=cache, backend="onnx")
    with pytest.raises(ModelLoadError, match="the hub was not contacted, as HF_HUB_OFFLINE is set"):
        scorer.warm_up()


@pytest.mark.parametrize(
    ("name", "backend"),
    rotated(
        ["./no/such/folder", "no/such/folder", "/no/such", "a--b", "no such"],
        ["openvino", "torch", "onnx"],
    ),
)
def test_names_that_no_model_of_the_hub_can_have(name, backend):
    with pytest.raises(ModelLoadError) as caught:
        CrossEncoderScorer(name, backend=backend).warm_up()
    assert str(caught.value) == (
        f"the model {name!r} cannot be loaded: no such folder, and no valid name of a model on "
        "the hub"
    )


@pytest.mark.parametrize(
    ("name", "on_hub"),
    [
        ("ms-marco-TinyBERT-L-2-v2", "cross-encoder/ms-marco-TinyBERT-L2-v2"),
        ("bge-reranker-base", "BAAI/bge-reranker-base"),
    ],
)
def test_a_name_without_its_owner(name, on_hub):
    with pytest.raises(ModelLoadError, match=f"; on the hub its name is '{on_hub}'$"):
        CrossEncoderScorer(name, local_files_only=True).warm_up()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    classifier = write_onnx(write_classifier(folder / "classifier"))
    limits = {"max_seq_length": 8, "transformer_task": "sequence-classification"}
    (classifier / "sentence_bert_config.json").write_text(json.dumps(limits))
    return {"some/model": classifier, "some/colbert": write_late_interaction(folder / "colbert")}


@pytest.fixture
def hub(models):
    with loopback_hub(models) as served:
        yield served


@pytest.fixture(scope="module")
def caches(models, tmp_path_factory):
    """By backend: the cache after a first run, and the files that it downloaded."""
    found = {}
    for backend in ("torch", "onnx", "openvino", "colbert"):
        with loopback_hub(models) as served:
            folder = str(tmp_path_factory.mktemp("cache"))
            found[backend] = folder, load(backend, folder) and served.downloads()
    return found


def load(backend, cache, **settings):
    """Two scores of the hub's model."""
    if backend == "colbert":
        scorer = CrossEncoderScorer("some/colbert", cache_folder=cache, **settings)
    else:
        settings = {"model": "some/model", "precision": "exact", **settings}
        scorer = CrossEncoderScorer(backend=backend, cache_folder=cache, **settings)
    try:
        return scorer.score_pairs("cat", ["the cat sat on a mat", "dog"])
    finally:
        scorer.close()


LIGHT = [
    "config.json",
    "onnx/model.onnx",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
]
FILES = {
    "onnx": LIGHT,
    "openvino": LIGHT,
    "torch": [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ],
    "colbert": [
        *(f"{module}/config.json" for module in ("1_Dense", "2_MultiVectorMask", "3_Normalize")),
        "1_Dense/model.safetensors",
        "config.json",
        "config_sentence_transformers.json",
        "model.safetensors",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ],
}


@pytest.mark.parametrize("backend", FILES)
def test_only_the_files_of_the_backend_are_downloaded(caches, backend):
    assert caches[backend][1] == sorted(FILES[backend])


OVERLOADED = "the hub is overloaded or out of order, with status {}; try again later$"
REFUSED = "the hub refused access with status {}: set HF_TOKEN, or the variable that token_env"
TROUBLE = {  # what the hub answers: what is said
    429: OVERLOADED.format(429),
    503: OVERLOADED.format(503),
    401: REFUSED.format(401),
    403: REFUSED.format(403),
    "gated": "its terms have to be accepted: accept them on its page on the hub, and set HF_TOKEN, "
    "or the variable that token_env names, to a token of that account$",
    "hang": "no such folder, and the hub did not answer; SSL_CERT_FILE: .*; set `model` to a "
    "folder with its files, `cache_folder` to a cache that has it, or HF_ENDPOINT to a mirror; "
    "the preset `embedded` "
    "needs no hub$",
}


@pytest.mark.parametrize(("answer", "backend"), rotated(TROUBLE, ["torch", "onnx", "colbert"]))
def test_a_hub_in_trouble(hub, caches, tmp_path, monkeypatch, answer, backend):
    monkeypatch.setattr(scorers_hub, "_TIMEOUT", 0.2)
    expected = load(backend, caches[backend][0], local_files_only=True)
    hub.answer = lambda path: answer
    began = time.monotonic()
    with pytest.raises(ModelLoadError, match=TROUBLE[answer]):
        load(backend, str(tmp_path))
    assert load(backend, caches[backend][0]) == expected
    assert len(hub.requests) == 2
    assert time.monotonic() - began < 60


def test_static_embeddings_are_downloaded_once(hub, tmp_path):
    hub.models = {"some/potion": write_static(tmp_path / "model")}
    cache = str(tmp_path / "cache")
    settings = {"model": "some/potion", "known_answers": False}
    expected = load("torch", cache, **settings)
    files = hub.downloads()
    assert {"model.safetensors", "modules.json", "tokenizer.json"} <= {*files}
    assert len({*files}) == len(files)
    before = len(hub.requests)
    assert load("torch", cache, **settings, local_files_only=True) == expected
    assert hub.requests[before:] == []


@pytest.fixture
def adapted(hub, tmp_path):
    """An adapter of the hub, whose base is there as well."""
    base, adapter = tmp_path / "base", tmp_path / "rankllama"
    families.write_rankllama_adapter(adapter, base)
    edit(adapter, "adapter_config.json", base_model_name_or_path="meta/llama")
    hub.models = {"meta/llama": base, "some/rankllama": adapter}
    settings = {"model": "some/rankllama", "cache_folder": str(tmp_path / "cache")}
    return partial(CrossEncoderScorer, **settings, known_answers=False, device="cpu")


def test_an_adapter_whose_base_cannot_be_downloaded(hub, adapted):
    hub.answer = lambda path: "gated" if "meta/llama" in path else None
    with pytest.raises(ModelLoadError, match=r"is an adapter .*'meta/llama' .*terms have to be"):
        adapted().warm_up()
    hub.models.pop("meta/llama")
    hub.answer = lambda path: None
    with pytest.raises(ModelLoadError, match=r"is an adapter .*'meta/llama' .*no such model on th"):
        adapted().warm_up()
    with pytest.raises(ModelLoadError, match=r"of 'meta/llama'.* and is not in the cache"):
        adapted(local_files_only=True).warm_up()


@pytest.mark.skipif(find_spec("peft") is None, reason="needs the package peft")
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_an_adapter_and_its_base_are_downloaded(hub, adapted):
    first = adapted()
    scores = first.score_pairs("cat", ["the cat sat", "dog"])
    first.close()
    assert len(set(scores)) == 2
    before = len(hub.requests)
    assert adapted(local_files_only=True).score_pairs("cat", ["the cat sat", "dog"]) == scores
    assert hub.requests[before:] == []


@pytest.mark.parametrize("backend", ["torch", "onnx", "colbert"])
def test_an_environment_in_which_the_hub_cannot_be_asked(hub, tmp_path, monkeypatch, backend):
    huggingface_hub.utils.close_session()
    monkeypatch.setenv("ALL_PROXY", "socks://h:1")
    with pytest.raises(ModelLoadError, match=r"the hub did not answer; .*ALL_PROXY: socks://h:1"):
        load(backend, str(tmp_path))
    assert hub.requests == []


@pytest.mark.parametrize("backend", ["torch", "onnx"])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"revision": "v2"}, "it has no revision 'v2' on the hub$"),
        ({"model": "some/other"}, "no such folder, and no such model on the hub, or it needs a"),
    ],
)
def test_what_the_hub_lacks(hub, tmp_path, backend, settings, reason):
    with pytest.raises(ModelLoadError, match=f"cannot be loaded: {reason}") as caught:
        load(backend, str(tmp_path), **settings)
    assert hub.url not in str(caught.value)


@pytest.mark.parametrize("answer", [429, 500, "hang"])
def test_files_are_served_and_the_description_is_not(hub, caches, monkeypatch, answer):
    monkeypatch.setattr(scorers_hub, "_TIMEOUT", 0.2)
    hub.answer = lambda path: answer if path.startswith("/api/") else None
    load("torch", caches["torch"][0])
    assert len(hub.requests) == 2


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_a_mirror_that_has_files_only(hub, caches, tmp_path, backend):
    hub.answer = lambda path: 404 if path.startswith("/api/") else None
    assert load(backend, str(tmp_path)) == load(backend, caches[backend][0])


@pytest.mark.parametrize("backend", ["torch", "onnx", "openvino", "auto"])
def test_a_proxy_that_has_nothing_does_not_hide_the_cache(hub, caches, backend):
    cache = caches["onnx" if backend == "auto" else backend][0]
    expected = load(backend, cache, local_files_only=True)
    hub.answer = lambda path: 404
    assert load(backend, cache) == expected


@pytest.mark.parametrize("settings", [{}, {"local_files_only": True}])
@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_a_cache_without_the_file_of_the_backend(hub, caches, backend, settings):
    hub.answer = lambda path: 503
    unanswered = "the hub did not answer; SSL_CERT_FILE: .*; set `model` to a folder"
    why = UNREACHABLE if settings else unanswered
    reason = f"no file for the backend '{backend}' in the cache, and {why}"
    with pytest.raises(ModelLoadError, match=reason):
        load(backend, caches["torch"][0], **settings)


@pytest.mark.parametrize(
    ("backend", "file"),
    [
        ("torch", "model.safetensors"),
        ("onnx", "model.onnx"),
        ("onnx", "tokenizer.json"),
        ("openvino", "config.json"),
    ],
)
def test_a_download_that_is_cut(hub, caches, tmp_path, backend, file):
    hub.answer = lambda path: "cut" if path.endswith(f"/{file}") else None
    with pytest.raises(ModelLoadError, match="'some/model' cannot be loaded"):
        load(backend, str(tmp_path))
    hub.answer = lambda path: None
    assert load(backend, str(tmp_path)) == load(backend, caches[backend][0])


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_a_file_that_is_not_served_is_not_taken_as_absent(hub, tmp_path, backend, monkeypatch):
    import huggingface_hub.utils._http as http

    monkeypatch.setattr(http.time, "sleep", lambda seconds: None)
    hub.answer = lambda path: 500 if path.endswith("sentence_bert_config.json") else None
    with pytest.raises(ModelLoadError, match="out of order, with status 500"):
        load(backend, str(tmp_path))


@pytest.mark.parametrize("name", ["config.json", "modules.json", "adapter_config.json"])
def test_what_tells_that_a_model_is_cached(hub, tmp_path, name):
    model = tmp_path / "models--some--model"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text("c0ffee")
    (model / "snapshots" / "c0ffee").mkdir(parents=True)
    (model / "snapshots" / "c0ffee" / name).write_text("{}")
    hub.answer = lambda path: 429
    assert HubModel("some/model", cache_folder=str(tmp_path)).is_offline()
