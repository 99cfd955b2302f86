"""The cores that this process may use, and what the processor multiplies fast."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

InstructionSet: TypeAlias = Literal["bfloat16", "AVX-512", "AVX2", "other"]

_CAPS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
"""Variables that limit the instruction sets of oneDNN, which OpenVINO and torch use."""

_max_cpus = math.inf
"""The limit that :func:`limit_cpus` has set."""


def limit_cpus(count: float) -> None:
    """Limit :func:`usable_cpus` to ``count``, because other processes use the other cores."""
    global _max_cpus  # noqa: PLW0603 - of the process, as affinity is
    _max_cpus = count


def usable_cpus() -> int:
    """The number of cores that this process can use, at least 1.

    The smallest of: cores of the machine, the affinity of the process, the CPU limit of its control
    group (versions 1 and 2), and the limit of :func:`limit_cpus`; rounded up.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, cpu_limit(), _max_cpus)))


def cpu_limit(
    root: Path = Path("/sys/fs/cgroup"), process: Path = Path("/proc/self/cgroup")
) -> float:
    """The CPU limit of the control group in cores; infinity without one.

    ``root`` is where control groups are mounted, ``process`` the file with the groups of this
    process.
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
        # Limits of enclosing groups apply, too. In a container, the group's own name may not exist
        # below the mount, but its limit is at the top.
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


def has_fast_bfloat16() -> bool:
    """Whether matrices are multiplied faster in bfloat16 than in float32.

    True with AMX, and with AVX-512 BF16 except on Intel's processors, where these instructions take
    twice the time of float32 (measured on a Xeon whose virtual machine hides AMX). Without either,
    libraries emulate bfloat16, at a fraction of the speed of float32.
    """
    vendor, flags = _processor()
    if _is_allowed("AMX") and "amx_bf16" in flags:
        return True
    allowed = _is_allowed("BF16", "FP16", "AMX", "AVX10")
    return allowed and "avx512_bf16" in flags and vendor != "GenuineIntel"


def instruction_set() -> InstructionSet:
    """The instructions by which models run: the fastest of what the processor and oneDNN have.

    ``bfloat16`` is :func:`has_fast_bfloat16`. ``other`` is a processor that is no x86, or is not
    known, as without Linux.
    """
    if has_fast_bfloat16():
        return "bfloat16"
    _, flags = _processor()
    if "avx512f" in flags and _is_allowed("AVX512", "AVX10"):
        return "AVX-512"
    return "AVX2" if "avx2" in flags else "other"


def _is_allowed(*names: str) -> bool:
    """Whether the variables of oneDNN leave it one of these instruction sets."""
    for variable in _CAPS:
        cap = os.environ.get(variable, "").upper()
        if cap and cap not in {"ALL", "DEFAULT"}:
            return any(name in cap for name in names)
    return True


@cache
def _processor() -> tuple[str, frozenset[str]]:
    """The maker of the processor and its flags, as Linux names them; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "", frozenset()
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        values.setdefault(name.strip(), value.strip())
    return values.get("vendor_id", ""), frozenset(values.get("flags", "").split())
