"""Describes the machine of a benchmark: processor, vector instructions, cores, versions."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

from benchmarks.speed.worker import versions

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
CAPS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
PACKAGES = ("torch", "onnxruntime", "openvino", "tokenizers", "transformers")


def describe() -> dict[str, Any]:
    fields: dict[str, str] = {}
    for line in _text("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = set(fields.get("flags", "").split())
    memory = _text("/proc/meminfo").split()
    return {
        "processor": fields.get("model name", platform.processor() or platform.machine()),
        "family": f"{fields.get('vendor_id', '')} family {fields.get('cpu family', '')} "
        f"model {fields.get('model', '')}",
        "flags": [flag for flag in FLAGS if flag in flags],
        "caps": {name: os.environ[name] for name in CAPS if name in os.environ},
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(int(memory[1]) / 1024**2) if memory else None,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "versions": versions(PACKAGES),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def has_bfloat16() -> bool:
    flags = set(describe()["flags"])
    return bool(flags & {"avx512_bf16", "amx_bf16"}) and not describe()["caps"]


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
