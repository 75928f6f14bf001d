"""`python -m benchmarks.peers [name ...]`: a server, a backlog, and every peer reads it in turns."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from benchmarks import scratch
from benchmarks.frame import progress, shown
from benchmarks.peers import debezium, recvlogical
from benchmarks.peers.backlog import backlog

if TYPE_CHECKING:
    from benchmarks.peers.backlog import Backlog


def _recvlogical(made: Backlog) -> tuple[float, str]:
    return recvlogical.drain(made), "the whole program"


def _debezium(made: Backlog) -> tuple[float, str]:
    drained = debezium.drain(made)
    return drained.seconds, f"first event to last; {shown(drained.seconds_with_start)} s from the engine's start"


_PEERS = {"pg_recvlogical": _recvlogical, "debezium": _debezium}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description="Let the peers read a backlog.")
    parser.add_argument("peers", nargs="*", metavar="name", help=f"which: {', '.join(_PEERS)}; all when none is named")
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    unknown = set(given.peers) - set(_PEERS)
    if unknown:
        parser.error(f"there is no peer {', '.join(sorted(unknown))}; there are {', '.join(_PEERS)}")
    debezium.prepare()
    with scratch.folder() as folder, scratch.stopped_afterwards(folder / "home") as home:
        dsn = home.facts_of_up()["dsn"]
        progress(f"Writing {given.changes:,} changes ...")
        with backlog(dsn, given.changes) as made:
            for _ in range(given.rounds):
                for name in given.peers or _PEERS:
                    took, note = _PEERS[name](made)
                    print(f"{name}: {shown(took)} s, {made.changes / took:,.0f} changes/s ({note})", flush=True)


if __name__ == "__main__":
    main()
