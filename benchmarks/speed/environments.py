"""Creates the environments of the other packages: one folder each, under ``build/bench-envs``.

    python -m benchmarks.speed.environments             # all
    python -m benchmarks.speed.environments flashrank   # some

Each is a venv with the packages of ``requirements/NAME.txt``. Those that use torch can also import
the packages of the environment that runs this script, after their own: torch is then installed
once, and a package that needs another version of something has it in its own environment. If an
environment cannot be installed, the last lines of pip's output are kept, and the benchmark prints
them as the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).with_name("requirements")
FOLDER = ROOT / "build" / "bench-envs"
CONSTRAINTS = REQUIREMENTS / "constraints.txt"
OURS = "project"
"""The environment that runs the benchmark."""
USE_TORCH = {
    "sentence-transformers-onnx",
    "sentence-transformers-openvino",
    "rerankers",
    "infinity",
    "haystack",
    "llama-index",
}
# Its build for GPUs does not load beside a CPU build of torch, and ranking does not use it.
REMOVE = {"sentence-transformers-openvino": "torchvision"}
TIMEOUT = 1200.0  # seconds for one environment


def names() -> list[str]:
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt") if path != CONSTRAINTS)


def python_of(name: str) -> Path:
    """The interpreter of an environment, whether or not it exists."""
    return Path(sys.executable) if name == OURS else FOLDER / name / "bin" / "python"


def reason(name: str) -> str:
    """Why an environment cannot be used; empty if it can."""
    if name == OURS:
        return ""
    try:
        state = json.loads((FOLDER / name / "state.json").read_text())
    except (OSError, ValueError):
        return "not installed (run: python -m benchmarks.speed.environments)"
    return str(state["reason"])


def _key(name: str) -> str:
    texts = [(REQUIREMENTS / f"{name}.txt").read_bytes(), CONSTRAINTS.read_bytes()]
    return hashlib.sha256(b"\0".join([sys.version.encode(), *texts])).hexdigest()


def is_prepared(name: str) -> bool:
    """Whether the environment was installed, or failed, with the present requirements."""
    try:
        state = json.loads((FOLDER / name / "state.json").read_text())
    except (OSError, ValueError):
        return False
    return bool(state["key"] == _key(name))


def _cause(output: str) -> str:
    errors = [line for line in output.splitlines() if line.lower().startswith("error")]
    lines = errors or output.strip().splitlines() or ["no output"]
    return " ".join(lines[-2:])[:300]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT)


def prepare(name: str) -> str:
    """Create an environment; return why it failed, or an empty string."""
    folder = FOLDER / name
    clear = [sys.executable, "-m", "venv", "--clear", str(folder)]
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    requirements = ["-c", str(CONSTRAINTS), "-r", str(REQUIREMENTS / f"{name}.txt")]
    why = ""
    try:
        _run(clear)
        if name in USE_TORCH:
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            packages = folder / "lib" / version / "site-packages"
            (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
        _run([*pip, "install", "--no-input", *requirements])
        if name in REMOVE:
            _run([*pip, "uninstall", "--yes", REMOVE[name]])
    except subprocess.TimeoutExpired:
        why = f"not installed within {TIMEOUT:.0f} s"
    except subprocess.CalledProcessError as error:
        why = _cause(error.stderr or error.stdout or "")
    folder.mkdir(parents=True, exist_ok=True)
    state = {"key": _key(name), "reason": why}
    (folder / "state.json").write_text(json.dumps(state, indent=1))
    return why


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"some of: {', '.join(names())}")
    parser.add_argument(
        "--again", action="store_true", help="install again, even those that exist or failed"
    )
    arguments = parser.parse_args()
    os.environ.pop("PYTHONPATH", None)
    for name in arguments.names or names():
        if is_prepared(name) and not arguments.again:
            continue
        print(f"{name}: installing", flush=True)
        print(f"{name}: {prepare(name) or 'ready'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
