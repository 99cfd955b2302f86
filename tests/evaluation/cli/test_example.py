"""``secondpass example``, and that the commands of a newcomer run on what it writes."""

import json
from importlib.resources import files
from pathlib import Path

from secondpass_evaluation import load_suite

RECIPES = Path(__file__).parents[3] / "examples/recipes/suite"


def test_the_folder_is_a_suite_with_documents_and_candidates(secondpass, tmp_path):
    folder = tmp_path / "try"
    told = secondpass("example", folder)
    assert (told.code, told.err) == (0, "")
    assert told.out == f"{folder}: 24 documents, 40 judged questions\n"
    suite = load_suite(folder / "suite")
    assert len(suite.queries) == len(suite.qrels) == 40
    pages = {path.stem: path.read_text() for path in (folder / "docs").iterdir()}
    assert pages.keys() == {page.id for page in suite.corpus}
    assert pages["cancel"].startswith("# Cancel a pass\n\nOpen Account")
    found = [json.loads(line) for line in (folder / "found.jsonl").read_text().splitlines()]
    scores = [one["score"] for one in found]
    assert scores == sorted(scores, reverse=True)
    assert {one["id"] for one in found} <= pages.keys()


def test_what_is_written_already_is_no_error(secondpass, tmp_path):
    folder = tmp_path / "try"
    assert secondpass("example", folder).code == 0
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    again = secondpass("example", folder)
    assert (again.code, again.err) == (0, "")
    assert again.out == f"{folder}: 24 documents, 40 judged questions, written before\n"
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == times
    (folder / "docs/cancel.md").write_text("changed")
    assert secondpass("example", folder).code == 1
    assert (folder / "docs/cancel.md").read_text() == "changed"


def test_an_existing_folder_is_left_alone(secondpass, tmp_path):
    told = secondpass("example", tmp_path)
    assert (told.code, told.out) == (1, "")
    assert told.err == f"secondpass: {tmp_path}: already exists; choose a new folder\n"


def test_the_recipes_have_the_same_handbook():
    packaged = files("secondpass_evaluation").joinpath("data/example")
    for path in RECIPES.iterdir():
        assert packaged.joinpath(path.name).read_bytes() == path.read_bytes()
