"""The store of a planning tool, and its heuristic search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Record: TypeAlias = dict[str, Any]

STORE = Path(__file__).parent / "store"
WEIGHTS = {"id": 3, "output": 3, "tags": 2, "description": 1}
"""Points for each occurrence of a query word in a field."""


@dataclass(frozen=True)
class Store:
    """Tactics and the state of the project, as the tool keeps them in YAML files."""

    tactics: list[Record]
    nodes: list[Record]

    @classmethod
    def read(cls, folder: Path) -> Store:
        """Read ``tactics.yaml`` and ``project.yaml``."""
        tactics = yaml.safe_load((folder / "tactics.yaml").read_text(encoding="utf-8"))
        project = yaml.safe_load((folder / "project.yaml").read_text(encoding="utf-8"))
        return cls(tactics, project["nodes"])

    def is_ready(self, tactic: Record) -> bool:
        """Whether everything that a tactic depends on is completed."""
        completed = {node["id"] for node in self.nodes if node["status"] == "completed"}
        return completed.issuperset(tactic["match"])

    def search(self, query: str, *, only_ready: bool = False) -> list[Record]:
        """The tactics that contain a word of the query, with a ``score``, best first.

        A tactic that is ready has one point more.
        """
        words = query.casefold().split()
        results = []
        for tactic in self.tactics:
            points = sum(
                weight * str(tactic[field]).casefold().count(word)
                for field, weight in WEIGHTS.items()
                for word in words
            )
            ready = self.is_ready(tactic)
            if points and (ready or not only_ready):
                results.append({**tactic, "score": points + ready})
        return sorted(results, key=lambda tactic: -tactic["score"])
