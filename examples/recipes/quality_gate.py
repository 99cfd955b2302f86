"""A quality gate for continuous integration: exits with 1 if search quality falls.

    pip install -e ".[embedded,evaluation]"
    python examples/recipes/quality_gate.py --bar 0.8
    python examples/recipes/quality_gate.py --bar 0.99 --measure RR@10

It measures a search and a reranker on the questions of a suite, and fails if the reranker's mean
nDCG@10 is below ``--bar``, if it is below that of the search alone by more than ``--worse``, or if
any ranking has a status other than ``ok``, for example because a fallback was used.

``quality_gate.yaml`` is the reranker, ``suite/`` the questions; 40 are enough to notice that
something broke, not to distinguish two good models. Choose ``--bar`` a little below what you
measure today (``report.html`` has the interval). ``--out`` writes the reports of the comparison to
a folder, for the artifacts of CI. ``quality_gate_workflow.yaml`` is a workflow for GitHub Actions:
copy it to ``.github/workflows``.

The exit code is 0 if the gate passes, 1 if it fails, 2 if nothing could be measured: for wrong
arguments, a suite or a configuration that cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # missing_package.py

import missing_package  # noqa: F401 - says what to install

from secondpass import SecondPassError
from secondpass.extend import MiniLM
from secondpass_evaluation import Comparison, HybridRetriever, compare, load_suite

HERE = Path(__file__).parent


def failures(comparison: Comparison, bar: float, worse: float) -> list[str]:
    """The reasons why the gate fails; empty if it passes."""
    measure, stage = comparison.measures[0], comparison.baseline
    result = comparison[f"{stage}+rerank"]
    if result.evaluation is None:
        return [f"the reranker was not measured: {result.reason}"]
    mean = result.evaluation.mean[measure]
    reasons = []
    if mean < bar:
        reasons.append(f"{measure} is {mean:.3f}, below {bar:.3f}")
    if (difference := result.differences[measure].mean) < -worse:
        reasons.append(f"{measure} is {-difference:.3f} lower than that of the search alone")
    if result.failure_rate:
        codes = ", ".join(result.issues) or "no issue"
        reasons.append(f"{result.failure_rate:.0%} of the rankings are not ok: {codes}")
    return reasons


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the results, and return the exit code."""
    parser = argparse.ArgumentParser(description="Fail if the second pass is worse than required.")
    parser.add_argument("--suite", type=Path, default=HERE / "suite", help="suite to measure on")
    parser.add_argument(
        "--config",
        type=Path,
        default=HERE / "quality_gate.yaml",
        help="configuration of the reranker",
    )
    parser.add_argument("--measure", default="nDCG@10", help="measure of ir_measures")
    parser.add_argument("--bar", type=float, required=True, help="minimum mean that passes")
    parser.add_argument(
        "--worse", type=float, default=0.0, help="accepted loss against the search alone"
    )
    parser.add_argument("--out", type=Path, help="folder for the reports")
    options = parser.parse_args(arguments)
    try:
        suite = load_suite(options.suite)
        comparison = compare(
            {"rerank": options.config},
            suite,
            retriever=HybridRetriever(suite.corpus or (), MiniLM()),
            first_stages=["hybrid"],
            measures=[options.measure],
        )
    except (SecondPassError, OSError) as error:
        print(f"nothing was measured: {error}", file=sys.stderr)
        return 2
    if options.out:
        comparison.write(options.out)
    for result in comparison.ran:
        mean = result.evaluation.mean[options.measure] if result.evaluation else 0.0
        print(f"{result.name}: {options.measure} {mean:.3f}")
    reasons = failures(comparison, options.bar, options.worse)
    for reason in reasons:
        print(f"quality gate failed: {reason}", file=sys.stderr)
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
