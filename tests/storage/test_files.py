"""SQLite files of our own: created once, and told from others."""

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from secondpass.storage import Layout
from secondpass.storage.files import SqliteConnection, WrongFileError, check_kind, prepare

LAYOUT = Layout(
    name="notebook",
    application=0x1234,
    version=2,
    schema=("CREATE TABLE notes (key, used, checksum, value)",),
    table="notes",
    dated=False,
)

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def marks(path):
    with closing(sqlite3.connect(path)) as connection:
        names = ("application_id", "user_version", "journal_mode")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]


@pytest.mark.parametrize("existing", [False, True], ids=["new", "empty"])
def test_a_file_is_created(tmp_path, existing):
    path = tmp_path / "file"
    if existing:
        path.touch()
    for _ in range(2):
        prepare(path, LAYOUT)
        assert marks(path) == [0x1234, 2, "wal"]


READS_A_FILE_IN_USE = """
import os, sqlite3, subprocess, sys
from contextlib import closing
from pathlib import Path
from secondpass.storage.files import SqliteConnection
from secondpass.storage.files import check_kind, prepare
from store_kinds import KINDS

path, layout = Path(sys.argv[1]), KINDS["answers"].layout
prepare(path, layout)
writer = SqliteConnection(path)
writer.run(lambda file: file.execute("PRAGMA journal_mode = DELETE"))  # which locks the file itself
writer.run(lambda file: file.execute("BEGIN IMMEDIATE"))
check_kind(path, layout)
other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
done = subprocess.run([sys.executable, "-c", other, str(path)], capture_output=True, check=False)
assert b"locked" in done.stderr
"""


def test_a_check_ends_no_lock_of_this_process(tmp_path):
    call = [sys.executable, "-c", READS_A_FILE_IN_USE, str(tmp_path / "file")]
    subprocess.run(call, env=ENVIRONMENT, timeout=60, check=True)


def test_a_file_is_checked_again_after_it_was_closed(tmp_path):
    """Its inode may be that of another file by then."""
    path = tmp_path / "file"
    prepare(path, LAYOUT)
    connection = SqliteConnection(path)
    connection.run(lambda file: file.execute("SELECT * FROM notes").fetchall())
    check_kind(path, LAYOUT)
    connection.close()
    path.write_bytes(b"notes of the user\n" * 500)
    path.chmod(0o664)
    for check in (check_kind, prepare):
        with pytest.raises(WrongFileError, match="not a file of secondpass"):
            check(path, LAYOUT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o664


def test_the_mode_of_a_file_that_was_overwritten_is_not_changed(tmp_path):
    """Not even while there are connections to it."""
    path = tmp_path / "file"
    prepare(path, LAYOUT)
    with closing(SqliteConnection(path)) as connection:
        connection.run(lambda file: file.execute("SELECT * FROM notes").fetchall())
        path.write_bytes(b"notes of the user\n" * 500)
        path.chmod(0o664)
        with pytest.raises(sqlite3.DatabaseError):
            prepare(path, LAYOUT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
