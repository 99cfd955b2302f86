import os
import subprocess
import sys

import pytest

from secondpass.concurrency import processor
from secondpass.concurrency.processor import (
    cpu_limit,
    has_fast_bfloat16,
    instruction_set,
    usable_cpus,
)


@pytest.mark.parametrize(
    ("group", "files", "limit"),
    [
        ("0::/\n", {}, float("inf")),
        ("0::/\n", {"cpu.max": "max 100000\n"}, float("inf")),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0),
        ("0::/elsewhere\n", {"cpu.max": "50000 100000"}, 0.5),
        (
            "5:cpu,cpuacct:/c\n4:memory:/c\n",
            {
                "cpu,cpuacct/c/cpu.cfs_quota_us": "300000",
                "cpu,cpuacct/c/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
        (
            "5:cpu:/\n",
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            float("inf"),
        ),
        ("0::/\n", {"cpu.max": "nonsense"}, float("inf")),
    ],
)
def test_limits_of_control_groups(tmp_path, group, files, limit):
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    process = tmp_path / "cgroup"
    process.write_text(group)
    assert cpu_limit(tmp_path / "mount", process) == limit


def test_without_control_groups(tmp_path):
    assert cpu_limit(tmp_path, tmp_path / "absent") == float("inf")


@pytest.mark.parametrize(
    ("cores", "limit", "expected"), [(8, 2.5, 3), (8, 0.5, 1), (2, 9.0, 2), (4, float("inf"), 4)]
)
def test_usable_cpus(monkeypatch, cores, limit, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr(processor, "cpu_limit", lambda: limit)
    assert usable_cpus() == expected


@pytest.fixture
def uncapped(monkeypatch):
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


AMX = {"avx512f", "avx512_bf16", "amx_bf16"}
BF16 = {"avx512f", "avx512_bf16"}
AVX512 = {"avx512f", "avx512_vnni"}


@pytest.mark.parametrize(
    ("vendor", "flags", "expected"),
    [
        ("GenuineIntel", AMX, True),
        ("GenuineIntel", BF16, False),
        ("GenuineIntel", AVX512, False),
        ("AuthenticAMD", BF16, True),
        ("AuthenticAMD", AVX512, False),
        ("", set(), False),
    ],
)
def test_bfloat16_is_fast(uncapped, vendor, flags, expected):
    uncapped.setattr(processor, "_processor", lambda: (vendor, frozenset(flags)))
    assert has_fast_bfloat16() is expected


AVX2 = {"avx2", "fma"}


@pytest.mark.parametrize(
    ("vendor", "flags", "cap", "expected"),
    [
        ("GenuineIntel", AVX2 | AMX, "", "bfloat16"),
        ("GenuineIntel", AVX2 | BF16, "", "AVX-512"),
        ("AuthenticAMD", AVX2 | BF16, "", "bfloat16"),
        ("AuthenticAMD", AVX2 | BF16, "AVX512_CORE", "AVX-512"),
        ("AuthenticAMD", AVX2 | BF16, "AVX2", "AVX2"),
        ("AuthenticAMD", AVX2 | AVX512, "", "AVX-512"),
        ("AuthenticAMD", AVX2, "", "AVX2"),
        ("AuthenticAMD", AVX2 | {"avx_vnni"}, "ALL", "AVX2"),
        ("GenuineIntel", {"sse4_2", "avx"}, "", "other"),
        ("", set(), "", "other"),
    ],
)
def test_instructions(uncapped, vendor, flags, cap, expected):
    uncapped.setenv("ONEDNN_MAX_CPU_ISA", cap)
    uncapped.setattr(processor, "_processor", lambda: (vendor, frozenset(flags)))
    assert instruction_set() == expected


@pytest.mark.parametrize(
    ("variable", "cap", "intel", "amd"),
    [
        ("ONEDNN_MAX_CPU_ISA", "AVX2", False, False),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI", False, False),
        ("DNNL_MAX_CPU_ISA", "avx512_core", False, False),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", False, True),
        ("ONEDNN_MAX_CPU_ISA", "AVX10_1_512", False, True),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_AMX", True, True),
        ("ONEDNN_MAX_CPU_ISA", "AVX10_1_512_AMX", True, True),
        ("ONEDNN_MAX_CPU_ISA", "ALL", True, True),
    ],
)
def test_capped_instructions(uncapped, variable, cap, intel, amd):
    uncapped.setenv(variable, cap)
    for vendor, flags, fast in (("GenuineIntel", AMX, intel), ("AuthenticAMD", BF16, amd)):
        uncapped.setattr(processor, "_processor", lambda: (vendor, frozenset(flags)))  # noqa: B023
        assert has_fast_bfloat16() is fast


def test_the_processor_is_read_from_linux():
    vendor, flags = processor._processor()
    assert bool(vendor) == bool(flags)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity of processes")
def test_calls_at_a_time_follow_the_cores_of_the_process():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from secondpass.concurrency.turns import WIDTH; print(WIDTH)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    assert int(done.stdout) == 5
