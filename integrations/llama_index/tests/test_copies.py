"""Serialisation and copies of the postprocessor."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
from llama_index.core.callbacks import CallbackManager

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import QUERY, ByLength, Callbacks, Failing, pandas, texts
from secondpass import RerankError


def test_files_are_serialised_by_content(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("{method: lexical, depth: 9, top_k: 2}")
    reranker = SecondPassRerank(file, depth=1)
    file.unlink()
    again = SecondPassRerank.from_json(reranker.to_json())
    assert again.reranker == {"method": {"type": "lexical"}, "top_k": 2}
    assert again.depth == 1


def test_from_json_takes_replacements() -> None:
    data = SecondPassRerank("lexical", top_n=3).to_json()
    assert SecondPassRerank.from_json(data, top_n=1).top_n == 1


def test_changed_copies() -> None:
    reranker = SecondPassRerank("lexical")
    assert len(reranker.model_copy(update={"top_n": 1}).postprocess_nodes(pandas(), None, "a")) == 1
    other = reranker.model_copy(update={"reranker": {"method": ByLength()}})
    assert texts(other.postprocess_nodes(pandas(), query_str=QUERY))[0].startswith("The red")
    failing = SecondPassRerank({"method": Failing(), "log_level": "debug"})
    deep = failing.model_copy(update={"strict": True}, deep=True)
    with pytest.raises(RerankError):
        deep.postprocess_nodes(pandas(), query_str=QUERY)
    assert len(failing.postprocess_nodes(pandas(), query_str=QUERY)) == 3


def test_a_deep_copy_shares_no_configuration() -> None:
    reranker = SecondPassRerank({"method": {"type": "lexical"}, "top_k": 2})
    for copied in (reranker.model_copy(deep=True), reranker.model_copy(update={}, deep=True)):
        copied.reranker["method"]["type"] = "other"
        assert reranker.reranker["method"] == {"type": "lexical"}


def test_no_handler_is_serialised() -> None:
    manager = CallbackManager([Callbacks()])
    reranker = SecondPassRerank("lexical", callback_manager=manager)
    assert "callback" not in reranker.to_json()
    assert copy.deepcopy(reranker).callback_manager is manager
    assert pickle.loads(pickle.dumps(reranker)).callback_manager is not manager
