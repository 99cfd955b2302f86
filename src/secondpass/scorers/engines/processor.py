"""What this process may use of the processor: cores, and arithmetic in reduced precision."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path

_CAPS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
"""Variables with which oneDNN, the library below OpenVINO and torch, is kept from instructions."""


def usable_cpus() -> int:
    """The number of cores that this process can use, at least 1.

    The smallest of: cores of the machine, the affinity of the process, and the CPU limit of its
    control group (versions 1 and 2), rounded up.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, cpu_limit())))


def cpu_limit(
    root: Path = Path("/sys/fs/cgroup"), process: Path = Path("/proc/self/cgroup")
) -> float:
    """The CPU limit of the control group in cores; infinity without one.

    Args:
        root: where the control groups are mounted.
        process: the file that names the groups of this process.
    """
    limits = [math.inf]
    try:
        lines = process.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        # A limit of any enclosing group holds, too. In a container, the group's own name may not
        # exist below the mount, but its limit is at the top.
        folder = base / name.lstrip("/")
        for group in (folder, *folder.parents):
            limits.append(_limit_of(group))
            if group == base:
                break
    return min(limits)


def _limit_of(group: Path) -> float:
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text()
            period = (group / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):  # no limit, "max", or no such group
        return math.inf


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 matrices itself (AVX-512 BF16, AMX).

    Where it does not, libraries emulate this, at a fraction of the speed of float32.
    """
    for name in _CAPS:
        cap = os.environ.get(name, "").upper()
        if cap and cap not in {"ALL", "DEFAULT"}:
            return any(part in cap for part in ("BF16", "FP16", "AMX", "AVX10")) and _bfloat16()
    return _bfloat16()


@cache
def _bfloat16() -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags
