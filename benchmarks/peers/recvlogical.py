"""PostgreSQL's own reader: `pg_recvlogical` over TCP into /dev/null, nothing decoded, nothing kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

from benchmarks import scratch
from benchmarks.frame import Seconds, timed
from thermocline.hot.binaries import MAJORS, Binaries
from thermocline.hot.connection import without_secrets

if TYPE_CHECKING:
    from benchmarks.peers.backlog import Backlog


def drain(backlog: Backlog, timeout: float = 900) -> Seconds:
    """Read the backlog once, in binary form; the time of the whole program, which is ready in milliseconds."""
    environment = scratch.environment(PGPASSWORD=str(conninfo_to_dict(backlog.dsn).get("password") or ""))
    with backlog.slot_copy() as slot:
        options = {"proto_version": "1", "publication_names": backlog.publication, "binary": "true"}
        command = [Binaries.of(max(MAJORS)).program("pg_recvlogical"), "--dbname", without_secrets(backlog.dsn)]
        command += ["--slot", slot, "--start", "--no-loop", "--endpos", backlog.end, "--file", os.devnull]
        command += [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
        took = timed(lambda: scratch.run_program(command, environment, Path.cwd(), timeout))
        backlog.require_read(slot)
    return Seconds(took)
