"""Serialisation, copies, and keys that appear in neither."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import MetadataMode
from pydantic import SecretStr

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_objects import (
    BEST_FIRST,
    KEY,
    LENGTHS,
    QUERY,
    Callbacks,
    Scripted,
    asking,
    lengths,
    nodes_of,
    scripted,
)
from secondpass import ConfigurationError, NotSerializableError, Reranker, RerankError
from secondpass.extend import LostInTheMiddle


def with_prompts(reranker: SecondPassRerank) -> SecondPassRerank:
    reranker.update_prompts({"instruction_prompt": PromptTemplate("Order {count} of them.")})
    return reranker


MADE: dict[str, Callable[[], SecondPassRerank]] = {
    "metadata": lambda: SecondPassRerank(
        "lexical", keep_retrieval_score=False, metadata_mode=MetadataMode.EMBED, metadata_prefix="x"
    ),
    "prompts of a mapping": lambda: with_prompts(
        SecondPassRerank(
            {"method": {"type": "graded", "llm": {"type": "openai", "model": "m"}}}, top_n=2
        )
    ),
    "prompts beside a key": lambda: with_prompts(SecondPassRerank("listwise_guided", api_key=KEY)),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_every_way_round_gives_the_same(made: Callable[[], SecondPassRerank]) -> None:
    reranker = made()
    written = reranker.to_json()
    others = {
        "json": SecondPassRerank.from_json(written),
        "dict": SecondPassRerank.from_dict(reranker.to_dict()),
        "validated": SecondPassRerank.model_validate_json(reranker.model_dump_json()),
        "pickle": pickle.loads(pickle.dumps(reranker)),
        "deepcopy": copy.deepcopy(reranker),
        "copy": copy.copy(reranker),
        "model_copy": reranker.model_copy(),
        "deep model_copy": reranker.model_copy(deep=True),
    }
    keyless = reranker._reranker if reranker.api_key is None else others["pickle"]._reranker
    for way, other in others.items():
        assert other.to_json() == written, way
        assert other.get_prompts() == reranker.get_prompts(), way
        if other.api_key is None:
            assert other._reranker.to_config() == keyless.to_config(), way
    assert KEY not in written


def test_a_changed_copy_is_made_of_its_settings() -> None:
    llm, other = scripted(), scripted(lambda passages, _: dict.fromkeys(passages, 5))
    reranker = with_prompts(asking("graded", llm))
    copied = reranker.model_copy(update={"llm": other, "choice_batch_size": 2})
    assert lengths(copied.postprocess_nodes(nodes_of(), None, QUERY)) == list(LENGTHS)
    assert len(other._asked) == 3
    assert "of them." in (other._asked[0][-1].content or "")
    assert not llm._asked
    assert lengths(reranker.postprocess_nodes(nodes_of(), None, QUERY)) == BEST_FIRST


HOLDING: dict[str, Callable[[], SecondPassRerank]] = {
    "flat": lambda: SecondPassRerank("cohere", api_key=KEY),
    "a changed copy": lambda: SecondPassRerank("cohere").model_copy(update={"api_key": KEY}),
    "secret in a mapping": lambda: SecondPassRerank(
        {"method": {"type": "cross_encoder", "model": "some/m", "token": SecretStr(KEY)}}
    ),
    "llm": lambda: asking("graded", scripted()),
}


@pytest.mark.parametrize("made", HOLDING.values(), ids=HOLDING)
def test_no_key_is_written_or_shown(made: Callable[[], SecondPassRerank]) -> None:
    reranker = made()
    if reranker.llm is not None:
        assert KEY in repr(reranker.llm)  # or this would show nothing
    ways: list[Callable[[], Any]] = [
        reranker.to_json,
        reranker.to_dict,
        reranker.model_dump,
        reranker.model_dump_json,
        lambda: reranker.model_dump(mode="json"),
        lambda: repr(reranker),
        lambda: str(reranker),
        lambda: repr(copy.deepcopy(reranker)),
        lambda: list(reranker.__repr_args__()),
    ]
    for way in ways:
        try:
            told = str(way())
        except (NotSerializableError, ValueError) as error:
            told = "".join(traceback.format_exception(error))
            assert "key" in told
        assert KEY not in told


def test_a_flat_key_is_left_out_of_pickles() -> None:
    pickled = pickle.dumps(HOLDING["flat"]())
    assert KEY.encode() not in pickled
    assert pickle.loads(pickled).api_key is None
    # Within a process it stays with its copies.
    assert copy.deepcopy(HOLDING["flat"]()).api_key.get_secret_value() == KEY


@pytest.mark.parametrize(
    ("name", "message"), [("secret in a mapping", "environment variable"), ("llm", "from_json")]
)
def test_other_keys_are_not_pickled(name: str, message: str) -> None:
    with pytest.raises(NotSerializableError, match=message) as caught:
        pickle.dumps(HOLDING[name]())
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(("name", "value"), [("api_key", KEY), ("reranker", {"api_key": KEY})])
def test_refused_assignment_shows_no_key(name: str, value: Any) -> None:
    created = SecondPassRerank("lexical")
    with pytest.raises(ConfigurationError) as caught:
        setattr(created, name, value)
    assert KEY not in str(caught.value)


def test_events_of_a_failing_llm_show_no_key(events: list[Any]) -> None:
    callbacks = Callbacks()
    error = RuntimeError(f"401: Authorization: Bearer {KEY}, for {'x' * 9}")
    for strict in (False, True):
        reranker = asking("graded", scripted(lambda *_: error), strict=strict)
        reranker.callback_manager = CallbackManager([callbacks])
        with suppress(RerankError):
            reranker.rerank_nodes(nodes_of(), QUERY)
    assert len(events) == 5  # the second has no end
    assert len(callbacks.seen) == 4
    assert all(KEY not in repr(one) for one in (*events, *callbacks.seen))


def test_what_was_passed_is_serialised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEPTH", "7")
    file = Path("ours.yaml")
    file.write_text("{method: lexical, depth: 9, top_k: 2}")
    variable = {"method": "lexical", "depth": {"env": "DEPTH"}}
    ready = {"method": {"type": "lexical"}, "depth": 3}
    method = LostInTheMiddle()
    for passed, written in (
        ("lexical", "lexical"),
        (file, "./ours.yaml"),
        (str(tmp_path / file), str(tmp_path / file)),
        (variable, variable),
        ({"preset": "lexical", "order": method}, {"preset": "lexical", "order": IN_THE_MIDDLE}),
        (Reranker("lexical", depth=3), ready),
    ):
        made = SecondPassRerank(passed)
        assert made.to_dict()["reranker"] == written
        again = SecondPassRerank.from_json(made.to_json())
        assert again._reranker.to_config() == made._reranker.to_config()


def test_prompts_are_passed_like_they_are_serialised() -> None:
    prompts = {"instruction_prompt": PromptTemplate("Order {count}.")}
    made = SecondPassRerank("listwise_guided", prompts=prompts)
    updated = SecondPassRerank("listwise_guided")
    updated.update_prompts(prompts)
    assert made.to_dict() == updated.to_dict()
    assert made.to_dict()["prompts"] == {"instruction_prompt": "Order {count}."}
    assert made.get_prompts() == updated.get_prompts()
    with pytest.raises(ConfigurationError, match="no prompt has this name; did you mean"):
        SecondPassRerank("listwise_guided", prompts={"instruction_promt": "x"})
    with pytest.raises(ConfigurationError, match="prompts: can't be changed"):
        made.prompts = {}


BEFORE = {
    "reranker": {
        "method": {"type": "graded", "llm": {"type": "openai", "model": "m"},
                   "prompt": {"instruction": "Grade {count}."}},
        "depth": 50,
    },
    "top_n": 2, "depth": None, "similarity_cutoff": None, "model": None, "device": None,
    "choice_batch_size": 3, "trust_remote_code": False, "cross_encoder_kwargs": None,
    "dedupe": None, "strict": None, "order": None, "max_tokens": None, "metadata_mode": "none",
    "metadata_prefix": "", "keep_retrieval_score": True, "class_name": "SecondPassRerank",
}  # fmt: skip
"""A postprocessor with a changed prompt as it was written when that was part of the reranker."""


def test_earlier_dumps_are_loaded() -> None:
    loaded = SecondPassRerank.from_dict(dict(BEFORE))
    assert loaded.get_prompts()["instruction_prompt"] == PromptTemplate("Grade {count}.")
    assert loaded._reranker.method.batch_size == 3
    assert loaded.to_dict() == {**BEFORE, "prompts": {}}


def test_no_handler_is_serialised() -> None:
    manager = CallbackManager([Callbacks()])
    reranker = SecondPassRerank("lexical", callback_manager=manager)
    assert "callback" not in reranker.to_json()
    assert copy.deepcopy(reranker).callback_manager is manager
    assert pickle.loads(pickle.dumps(reranker)).callback_manager is not manager


def test_no_callback_manager_is_an_empty_one() -> None:
    """Other postprocessors take None, too."""
    reranker = SecondPassRerank("lexical", callback_manager=None)
    for _ in range(2):
        assert reranker.rerank_nodes(nodes_of(), QUERY)[1].status == "ok"
        reranker.callback_manager = None  # type: ignore[assignment]
    message = "callback_manager: give a CallbackManager or None, not 3"
    with pytest.raises(ConfigurationError, match=f"^{message}$"):
        SecondPassRerank("lexical", callback_manager=3)
    with pytest.raises(ValueError, match=message):
        reranker.callback_manager = 3  # type: ignore[assignment]


IN_THE_MIDDLE = {"type": "lost_in_the_middle"}


class WithHeaders(Scripted):
    default_headers: dict[str, str] = {}  # noqa: RUF012 - a pydantic field


def test_no_key_under_another_name_is_pickled() -> None:
    headers = {"Authorization": "Bearer sk-SECRET"}
    in_options = {"type": "openai", "model": "m", "options": {"extra_headers": headers}}
    for postprocessor in (
        asking("graded", WithHeaders(api_key="", default_headers=headers)),
        SecondPassRerank({"method": {"type": "graded", "llm": in_options}}),
    ):
        with pytest.raises(NotSerializableError, match="holds a key"):
            pickle.dumps(postprocessor)
    keyless = asking("graded", WithHeaders(api_key=""))
    assert pickle.loads(pickle.dumps(keyless)).to_json() == keyless.to_json()
