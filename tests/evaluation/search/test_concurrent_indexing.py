"""Readers and builds at once, and builds that are killed."""

import os
import subprocess
import sys
import threading

import pytest

from letter_embedder import LetterEmbedder, ids
from secondpass.formats.errors import IndexFaultError
from secondpass_evaluation.search.index import open_index
from secondpass_evaluation.search.indexing import build_index


def test_concurrent_builds_of_one_folder_are_refused(docs, index) -> None:
    (docs / "new.txt").write_text("x")

    class Meanwhile(LetterEmbedder):
        def embed(self, texts):
            with pytest.raises(IndexFaultError, match="another process is building this index"):
                build_index(docs, index, LetterEmbedder())
            return super().embed(texts)

    assert build_index(docs, index, Meanwhile()).made
    assert len(open_index(index, LetterEmbedder()).corpus) == 5


def test_readers_never_see_a_partial_index(docs, index) -> None:
    done = threading.Event()

    def renew() -> None:
        try:
            for position in range(8):
                (docs / "new.txt").write_text(f"text {position}")
                build_index(docs, index, LetterEmbedder())
        finally:
            done.set()

    thread = threading.Thread(target=renew)
    thread.start()
    opened = 0
    while not done.is_set() or not opened:
        retrieved = open_index(index, LetterEmbedder(), stale_ok=True).retrieve(
            "mice owl", 2, "lexical"
        )
        assert set(ids(retrieved)) == {"owls.md#1", "owls.md#2"} or "cats.html#1" in ids(retrieved)
        opened += 1
    thread.join()
    assert opened


_KILLS = '''
import os, signal, sys
from pathlib import Path
import numpy as np
import bm25s
from secondpass.formats.errors import IndexFaultError
from secondpass_evaluation.search.index import open_index
from secondpass_evaluation.search.indexing import build_index

class Letters:
    name = "letters"
    def embed(self, texts):
        counts = np.array([[text.count(one) for one in "abcdefgh"] for text in texts], float) + .01
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)

root = Path(sys.argv[1])
docs, index = root / "docs", root / "index"
docs.mkdir()
(docs / "a.txt").write_text("old")
build_index(docs, root / "other", Letters())  # imports, once for all children
if sys.argv[2] == "renewed":
    build_index(docs, index, Letters())
    (docs / "a.txt").write_text("newer")
WATCHED = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.listdir", "os.scandir"}

def killed_at(number):
    """Whether a build was killed, at the event of that number."""
    child = os.fork()
    if not child:
        seen = 0
        def hook(event, arguments):
            nonlocal seen
            if event in WATCHED and str(index) in str(arguments):
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        build_index(docs, index, Letters())
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

number, states = 1, []
while killed_at(number):
    number += 1
    try:
        [found] = open_index(index, Letters(), stale_ok=True).retrieve("old newer", 5, "vector")
        states.append(found.text)
    except FileNotFoundError:
        states.append("none yet")
    except IndexFaultError as error:
        assert "not an index" in str(error) or "indexing was interrupted" in str(error), error
        states.append("none yet")
    if states[-1] == "newer":
        (docs / "a.txt").write_text("old")
        build_index(docs, index, Letters())
        (docs / "a.txt").write_text("newer")
[found] = open_index(index, Letters()).retrieve("old newer", 5, "vector")
states.append(found.text)
assert len([*index.glob("parts-*")]) == 1, "what the killed have left is swept"
print(*states, sep=",")
'''


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize(("what", "before", "after"), [
    ("renewed", "old", "newer"),
    ("first", "none yet", "old"),
])  # fmt: skip
def test_killed_build_leaves_the_old_index_or_the_new(tmp_path, what, before, after):
    """Killed at every file that is opened, made, moved or taken away, one after the other."""
    done = subprocess.run(
        [sys.executable, "-c", _KILLS, str(tmp_path), what],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    states = done.stdout.strip().split(",")
    assert len(states) > 20
    assert set(states) <= {before, after}
    assert states[0] == before
    assert states[-1] == after
