"""New files of a model take the place of old ones together."""

import os

import pytest

from secondpass.errors import InputError
from secondpass.exporting.export import check_differences, move_into

ONNX, OPENVINO = "onnx/model.onnx", "openvino/openvino_model.xml"


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else None
        for path in folder.rglob("*")
    }


def of_one_model(files):
    """Whether the files that a reranker would load belong together: all old, or all new."""
    names = [name for name in files if "openvino" not in name or OPENVINO in files]
    return len({files[name] for name in names if files[name] in {"old", "new"}}) <= 1


CASES = {
    "first export": (ONNX, {"config.json": "old"}, {}),
    "a folder of its own": (ONNX, None, {"config.json": "new", "tokenizer.json": "new"}),
    "one file": (ONNX, {ONNX: "old"}, {}),
    "weights of their own": (ONNX, {ONNX: "old", f"{ONNX}_data": "old"}, {f"{ONNX}_data": "new"}),
    "no longer": (ONNX, {ONNX: "old", f"{ONNX}_data": "old", f"{ONNX}.data": "old"}, {}),
    "another tokenizer": (ONNX, {ONNX: "old", "tokenizer.json": "old"}, {"tokenizer.json": "new"}),
    "openvino": (
        OPENVINO,
        {OPENVINO: "old", OPENVINO.replace("xml", "bin"): "old"},
        {OPENVINO.replace("xml", "bin"): "new"},
    ),
}


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    file, before, new = CASES[request.param]
    folder = tmp_path / "parent" / "model"
    if before is not None:
        write(folder, {**before, "notes.txt": "kept"})
    draft = write(tmp_path / "draft", {**new, file: "new"})
    aside = tmp_path / "aside"
    aside.mkdir()
    return draft, folder, file, aside


def test_files_are_replaced_and_others_kept(case):
    draft, folder, file, _aside = case
    before, new = contents(folder), contents(draft)
    move_into(*case)
    outdated = {f"{file}_data", f"{file}.data"} - new.keys()
    assert contents(folder) == {
        name: text for name, text in {**before, **new}.items() if name not in outdated
    }


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_exception_at_any_step_leaves_the_folder_as_before(case, monkeypatch, error):
    draft, folder = case[:2]
    before, new, replace = contents(folder.parent), contents(draft), os.replace
    steps = 0

    def failing(source, target):
        nonlocal left
        left -= 1
        if left < 0 and not undone:
            undone.append(1)
            raise error
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    while True:
        left, undone = steps, []
        try:
            move_into(*case)
        except error:
            assert contents(folder.parent) == before
            write(draft, {name: text for name, text in new.items() if text})
            steps += 1
        else:
            break
    assert steps >= 1


def test_a_killed_process_leaves_files_of_one_model(case, monkeypatch):
    folder, file = case[1], case[2]
    replace = os.replace

    def watched(source, target):
        assert of_one_model(contents(folder))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    move_into(*case)
    assert contents(folder)[file] == "new"


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ({"config.json": '{"a": 1, "b": 2}'}, {"config.json": '{"b": 2,\n"a": 1}'}, None),
        ({"config.json": '{"a": 1}'}, {"config.json": '{"a": 2}'}, "config.json"),
        ({"config.json": "no json"}, {"config.json": "{}"}, "config.json"),
        ({"vocab.txt": "a"}, {"vocab.txt": "b"}, "vocab.txt"),
        ({"vocab.txt": "a"}, {"vocab.txt": "ab"}, "vocab.txt"),
        ({"vocab.txt": "a"}, {"vocab.txt": "a", "tokenizer.json": "{}"}, None),
    ],
)
def test_files_that_differ_are_named(tmp_path, old, new, name):
    draft, folder = write(tmp_path / "draft", new), write(tmp_path / "model", old)
    if name is None:
        check_differences(draft, folder)
        return
    with pytest.raises(InputError, match=f"{name}: exists with other content; .* force=True"):
        check_differences(draft, folder)
