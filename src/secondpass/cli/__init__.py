"""The command ``secondpass``. typer and rich come with the extra ``cli``."""

from __future__ import annotations

import sys

from secondpass.errors import MissingExtraError


def main() -> None:
    """Run the command; what it was asked for stands in ``sys.argv``.

    Raises:
        SystemExit: with the exit code.
    """
    try:
        from secondpass.cli.app import app
        from secondpass.cli.terminal import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        sys.exit(f"secondpass: {MissingExtraError('cli', 'the command')}")
    except KeyboardInterrupt:
        sys.exit(130)
    run(lambda: app(prog_name="secondpass"))
