"""What `feed_traffic.py` runs on a cluster: the first copy of some tables, and a backlog of as many changes of them."""

from __future__ import annotations

import json
import sys
import time

from benchmarks.ground import PER_TRANSACTION, Ground
from thermocline import config
from thermocline.lake.tasks import OnSpark
from thermocline.stack import Stack


def main(changes: int, tables: list[str]) -> None:
    stack = Stack(config.load().settings)
    on = Ground(stack, stack.spark())
    share = changes // len(tables)
    on.run(*(f"SELECT lakets.enable_sync('{name}')" for name in tables))
    taken: dict[str, float] = {}
    with stack.own_feed(OnSpark(lambda: on.spark)) as feed:
        began = time.perf_counter()
        while not feed.tend().caught_up:
            time.sleep(0.1)
        taken["first copy"] = time.perf_counter() - began
    on.drain()
    before = sum(on.lake_rows(name) for name in tables)
    for begin in range(0, share, PER_TRANSACTION):  # their transactions take turns
        for name in tables:
            on.insert(name, min(PER_TRANSACTION, share - begin))
    began = time.perf_counter()
    on.drain()
    taken["backlog"] = time.perf_counter() - began
    arrived = sum(on.lake_rows(name) for name in tables) - before
    assert arrived == share * len(tables), f"{arrived} of {share * len(tables)} changes are in the lake"
    on.run(*(f"SELECT lakets.disable_sync('{name}')" for name in tables))
    with stack.catalog() as catalog:
        for name in tables:
            catalog.drop_table(f"public.lb_{name}_history")
    on.spark.stop()
    print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
