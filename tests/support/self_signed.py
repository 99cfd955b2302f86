"""A certificate that signs itself, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed(folder: Path) -> tuple[str, str]:
    """Paths of a certificate for localhost and of its key; skips the test without openssl."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("without openssl there is no certificate")
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    options = ["-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    options += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = [openssl, "req", *options, "-out", certificate, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return certificate, key
