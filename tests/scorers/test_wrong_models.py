"""Wrong models, by every way in: no ranking is ``ok``, and one sentence says why."""

import json

import pytest

import checkpoint_folders as folders
from command_fixtures import *  # noqa: F403
from secondpass import Reranker, RerankError


@pytest.mark.parametrize("write", [folders.bare, folders.untemplated])
def test_no_way_in_gives_a_ranking(write, tmp_path, secondpass):
    folder = str(write(tmp_path / "model"))
    method = {"type": "cross_encoder", "model": folder}
    report = Reranker(method).rerank("q", ["a", "b"]).report
    assert report.status == "unchanged"
    [issue] = report.issues
    assert issue.code == "model_not_loaded"
    assert "\n" not in issue.message
    with pytest.raises(RerankError):
        Reranker(method, strict=True).rerank("q", ["a", "b"])
    told = secondpass("doctor", folder, "--json")
    assert told.code == 1
    assert json.loads(told.out)["model"]["refused"]
    told = secondpass("doctor", "--set", f"method={json.dumps(method)}", "--json")
    assert told.code == 1
