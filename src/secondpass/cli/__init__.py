"""The command ``secondpass``. It needs the extra ``cli`` (typer and rich)."""

from __future__ import annotations

import sys

from secondpass.errors import MissingExtraError


def main() -> None:
    """Run the command with the arguments in ``sys.argv``."""
    try:
        from secondpass.cli.app import app
        from secondpass.cli.running import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        sys.exit(f"secondpass: {MissingExtraError('cli', 'the command')}")
    except KeyboardInterrupt:
        sys.exit(130)
    run(lambda: app(prog_name="secondpass"))
