"""A suite of six documents and three queries, and how results of ``eval`` are read."""

import json
import re

DOCUMENTS = {
    "moon": "The moon moves around the earth.",
    "pear": "A pear is a sweet fruit.",
    "banana": "A banana is a fruit rich in potassium.",
    "train": "Trains run on rails between towns.",
    "bread": "Bread is baked from flour and water.",
    "river": "A river carries water to the sea.",
}
QUERIES = {"q1": "fruit with potassium", "q2": "what goes around the earth", "q3": "baked flour"}
QRELS = {"q1": {"banana": 2, "pear": 1}, "q2": {"moon": 1}, "q3": {"bread": 1}}


def systems(told):
    return {one["name"]: one for one in json.loads(told.out)["systems"]}


def announced(told):
    """The calls that each system is said to take, and the cost."""
    found = re.findall(r"(\S+) will ask m: (\d+) calls?, .*?, cost about ([\d.e+]+)", told.flat)
    return {name: (int(calls), float(cost)) for name, calls, cost in found}
