"""What an example says if a package is not installed: which one, and how to install it.

Each program imports this module before any package, except `langchain_compressor.py`, which is one
file to copy. Without it, Python would print a traceback.
The command is the one in the docstring of the example.
"""

from __future__ import annotations

import ast
import sys
import traceback
from pathlib import Path
from types import TracebackType

EXAMPLES = Path(__file__).resolve().parent


def message(error: BaseException) -> str | None:
    """What to print instead of the traceback; None if something else went wrong.

    Args:
        error: an ``ImportError``, which ``MissingExtraError`` of secondpass is, too.
    """
    if feature := getattr(error, "needed_for", None):
        reason = f"{feature} needs packages that are not installed"
    # A folder of examples with the name of a package is found in its place, without a path.
    elif isinstance(error, ImportError) and error.name and error.path is None:
        reason = f"the package {error.name} is not installed"
    else:
        return None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename).resolve()
        if path.is_file() and path.is_relative_to(EXAMPLES) and (lines := install_lines(path)):
            program = path.parent if path.stem == "__main__" else path
            name = program.relative_to(EXAMPLES.parent).as_posix()
            commands = "".join(f"\n    {line}" for line in lines)
            return f"{name}: {reason}. Run this in the root of the repository:{commands}"
    return None


def install_lines(path: Path) -> list[str]:
    """The ``pip install`` lines in the docstring of a program."""
    lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()
    return [line.strip() for line in lines if line.startswith("    pip install ")]


_print_traceback = sys.excepthook


def _explain(
    kind: type[BaseException], error: BaseException, traceback_: TracebackType | None
) -> None:
    if text := message(error):
        print(text, file=sys.stderr)
    else:
        _print_traceback(kind, error, traceback_)


sys.excepthook = _explain
