"""Every console block of the READMEs runs, and prints what the README shows."""

from pathlib import Path

import pytest
import scripted_model

from readme_blocks import console_blocks, copied, run

EXAMPLES = Path(scripted_model.__file__).parent
FOLDERS = ("tactician_search", "learning_search", "local_rag", "docs_search", "memory_recall")


@pytest.mark.long  # about thirty processes
@pytest.mark.parametrize("folder", FOLDERS)
def test_console_blocks(folder, tmp_path):
    examples = tmp_path / "examples"
    examples.mkdir()
    copied(EXAMPLES / folder, examples)
    for module in ("scripted_model.py", "coprocess.py"):
        (examples / module).write_bytes((EXAMPLES / module).read_bytes())
    blocks = console_blocks(EXAMPLES / folder / "README.md")
    assert blocks
    for block in blocks:
        done = run(block, examples)
        assert done.returncode == 0, done.stderr
        if block.output is not None:
            assert done.stdout == block.output


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_page(folder):
    assert len((EXAMPLES / folder / "README.md").read_text().splitlines()) <= 100
