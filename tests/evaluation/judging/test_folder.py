"""Where judgements may be written."""

import pytest

from judged_folders import POOLS, write_folder
from secondpass import Candidate
from secondpass.errors import InputError
from secondpass.formats.errors import FormatError
from secondpass_evaluation.judging.folder import check_folder, check_ids

ALWAYS = ["qrels.tsv", "qrels/test.tsv", "qrels.txt.gz", "qrels"]
"""Would be read instead of `qrels.txt`, or by its mark."""


@pytest.mark.parametrize("name", [*ALWAYS, "qrels.txt", "queries.jsonl", "pool.jsonl"])
def test_what_no_model_made_is_not_overwritten(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("q 0 d 1\n")
    with pytest.raises(InputError, match=f"has {name}, which is not marked as a model's"):
        check_folder(tmp_path)


def test_a_models_judgements_may_be_replaced(tmp_path):
    check_folder(tmp_path / "new")
    write_folder(tmp_path)
    check_folder(tmp_path)
    (tmp_path / "qrels.tsv").write_text("")
    with pytest.raises(InputError, match=r"has qrels\.tsv, which"):
        check_folder(tmp_path)


def test_ids_have_to_fit_into_the_files():
    check_ids(POOLS)
    with pytest.raises(FormatError, match="query id 'q 1' has white space"):
        check_ids({"q 1": ()})
    with pytest.raises(FormatError, match="document id 'd 1' has white space"):
        check_ids({"q": (Candidate("pears", "d 1"),)})
