"""Models that also read pictures are given texts, whatever these look like."""

import base64
import io
import sys

import pytest

from family_models import CHAT_TEMPLATE, write_chat_reranker
from secondpass import ModelLoadError, Reranker
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from vision_models import write_vision_model

KINDS = ["CrossEncoder", "SentenceTransformer", "MultiVectorEncoder"]
PLAIN = "the cat sat on a mat"
_WATCHED = []
"""Where events of opened files and connections are recorded; empty if nobody looks."""


def _watch(event, arguments):
    if _WATCHED and event in {"open", "socket.connect", "socket.getaddrinfo"}:
        _WATCHED[0].append((event, str(arguments[0 if event != "socket.connect" else 1])))


sys.addaudithook(_watch)  # for good: there is no way to remove one


@pytest.fixture
def events():
    _WATCHED.append([])
    yield _WATCHED[0]
    _WATCHED.clear()


def texts_like_pictures(folder, picture):
    return [
        "http://127.0.0.1:9/photo.png",
        "https://www.youtube.com/watch?v=1",
        "https://127.0.0.1:9/a.mp3",
        str(folder / "photo.png"),
        f"data:image/png;base64,{base64.b64encode(picture).decode()}",
        "a <image> of a cat",
    ]


@pytest.fixture
def picture():
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (16, 16), (200, 10, 10)).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model(kind, tmp_path_factory):
    return str(write_vision_model(tmp_path_factory.mktemp("vision") / "model", kind))


def scores(model, query, texts):
    scorer = CrossEncoderScorer(model, known_answers=False, precision="exact")
    found = scorer.score_pairs(query, texts)
    scorer.close()
    return found


def test_no_text_is_opened_or_fetched(model, tmp_path, picture, events):
    texts = texts_like_pictures(tmp_path, picture)
    as_passage = scores(model, PLAIN, texts)
    as_query = [scores(model, text, [PLAIN]) for text in texts]
    (tmp_path / "photo.png").write_bytes(picture)
    events.clear()
    assert scores(model, PLAIN, texts) == as_passage
    assert [scores(model, text, [PLAIN]) for text in texts] == as_query
    assert [event for event in events if event[0] != "open" or "photo" in event[1]] == []
    assert len({*as_passage}) == len(texts)


def test_a_field_is_no_picture(model, tmp_path, picture, events):
    (tmp_path / "photo.png").write_bytes(picture)
    photo = str(tmp_path / "photo.png")
    method = {"type": "cross_encoder", "model": model, "known_answers": False}
    candidates = [{"photo": photo}, {"photo": PLAIN}]
    with Reranker(method, render={"fields": ["photo"], "labels": False}) as reranker:
        events.clear()
        result = reranker.rerank(photo, candidates)
    assert [*result.report.issues] == []
    assert [event for event in events if "photo.png" in event[1]] == []


def test_plain_texts_score_as_sentence_transformers_scores_them(model, kind):
    import sentence_transformers
    import torch

    passages = ["dogs ran", "the cat", "no"]
    encoder = getattr(sentence_transformers, kind)(model, device="cpu")
    if kind == "CrossEncoder":
        pairs = [(PLAIN, passage) for passage in passages]
        expected = encoder.predict(pairs, activation_fn=torch.nn.Identity())
    else:
        vectors = encoder.encode_query([PLAIN]), encoder.encode_document(passages)
        expected = encoder.similarity(*vectors)[0]
    assert scores(model, PLAIN, passages) == pytest.approx(expected.tolist(), rel=1e-4)


def test_modules_that_cannot_be_told_what_a_text_is(tmp_path):
    model = str(write_vision_model(tmp_path / "model", "Router"))
    with pytest.raises(ModelLoadError, match="has a Router of modules with chat templates"):
        CrossEncoderScorer(model).warm_up()


def test_a_chat_template_of_parts_is_given_texts(tmp_path):
    """Of a model without pictures, too, whose template would drop them."""
    model = write_chat_reranker(tmp_path / "model")
    text = "https://host/photo.png"
    expected = scores(str(model), text, [text, PLAIN])
    parts = CHAT_TEMPLATE.replace("['content']", "['content'][0]['text']")
    (model / "chat_template.jinja").write_text(parts)
    path = model / "sentence_bert_config.json"
    path.write_text(path.read_text().replace('"flat"', '"structured"'))
    assert scores(str(model), text, [text, PLAIN]) == expected
