"""What a component owns is warmed up once and closed once."""

import asyncio
import copy

import pytest

from haystack_integrations.components.rankers.secondpass.life_cycle import LifeCycle
from secondpass import Reranker


class Model:
    model_name = "model"

    def __init__(self, events, broken=False):
        self.events = events
        self.broken = broken

    def score_pairs(self, query, documents):
        return [0.0] * len(documents)

    def warm_up(self):
        self.events.append("models warm")
        if self.broken:
            raise OSError("no such model")

    def close(self):
        self.events.append("models closed")


class LLM:
    def __init__(self, events):
        self.events = events

    def warm_up_sync(self):
        self.events.append("sync warm")

    async def warm_up_async(self):
        self.events.append("async warm")

    def close_sync(self):
        self.events.append("sync closed")

    async def close_async(self):
        self.events.append("async closed")


def life_of(events, *, broken=False, strict=False, llm=True):
    warned = []
    reranker = Reranker(Model(events, broken), strict=strict, log_level="debug")
    life = LifeCycle(
        reranker, LLM(events) if llm else None, lambda what, error: warned.append((what, error))
    )
    return life, warned


def test_each_interface_once():
    events = []
    life, warned = life_of(events)
    for _ in range(2):
        life.warm_up()
        asyncio.run(life.awarm_up())
    assert events == ["sync warm", "models warm", "async warm"]
    events.clear()
    life.close()
    asyncio.run(life.aclose())
    assert events == ["sync closed", "models closed", "async closed"]
    assert not warned


def test_nothing_opened_nothing_closed():
    events = []
    life, _ = life_of(events, llm=False)
    life.close()
    assert events == []
    life.opened = True  # a ranking loads models, too
    life.close()
    assert events == ["models closed"]


def test_warm_again_after_close():
    events = []
    life, _ = life_of(events)
    life.warm_up()
    life.close()
    life.warm_up()
    assert events.count("models warm") == events.count("sync warm") == 2


def test_warns_once():
    life, warned = life_of([], broken=True)
    for _ in range(3):
        life.warm_up()
        life.close()
    ((what, error),) = warned
    assert what == "the models"
    assert isinstance(error, OSError)


def test_strict_raises_each_time():
    life, warned = life_of([], broken=True, strict=True)
    for _ in range(2):
        with pytest.raises(OSError, match="no such model"):
            life.warm_up()
    with pytest.raises(OSError, match="no such model"):
        asyncio.run(life.awarm_up())
    assert not warned


def test_copies_warm_up_and_close_alone():
    events = []
    first = LifeCycle(Reranker(Model(events)), None, lambda *_: None)
    first.warm_up()
    second = copy.deepcopy(first)
    second.warm_up()
    second.close()
    first.close()
    assert events == ["models warm", "models closed", "models closed"]
