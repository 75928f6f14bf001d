"""A table as the gate meets it: synced, streaming, its chunks copied; receipts made by hand with the true evidence."""

from __future__ import annotations

import itertools
import json
import os
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from harness.questions import ask, one

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count(1)
DAYS = 3  # with rows: five, four and three days ago

RECEIPT = """
    INSERT INTO thermocline.receipt
        (chronotable_id, chunk_oid, chunk_name, range_start, range_end, row_count, fingerprint, relfilenode, columns,
         hash_one, hash_two, position, lake_table, lake_snapshot, lake_checked_at,
         system_identifier, timeline, slot_name, epoch)
    SELECT m.chronotable_id, m.chunk_oid, m.chunk_name, m.range_start, m.range_end,
           e.row_count, e.fingerprint, e.relfilenode, e.columns,
           1, 2, pg_current_wal_lsn(), s.lake_table, 7, clock_timestamp(),
           f.system_identifier, f.timeline, f.slot_name, f.epoch
    FROM lakets._chunk_metadata m
    CROSS JOIN LATERAL thermocline._chunk_evidence(m.chunk_oid) e
    JOIN thermocline.synced_table s ON s.chronotable_id = m.chronotable_id
    CROSS JOIN thermocline.stream f
    WHERE m.chunk_oid = %s
    RETURNING id
"""


class Metrics:
    """The table `public.metrics` in daily chunks of 24 rows; chunk 0 is the oldest."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.db = psycopg.connect(dsn, autocommit=True)
        self.db.execute("SET timezone = 'UTC'")
        self.notices: list[tuple[str, str, str | None]] = []
        self.db.add_notice_handler(
            lambda said: self.notices.append((said.severity or "", said.message_primary or "", said.message_detail))
        )
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.start = midnight - timedelta(days=5)
        self.db.execute("CREATE TYPE mood AS ENUM ('calm', 'wild')")
        self.db.execute(
            "CREATE TABLE metrics (ts timestamptz NOT NULL, sensor int NOT NULL, v float8, mood mood,"
            " PRIMARY KEY (sensor, ts))"
        )
        self.db.execute(
            "INSERT INTO metrics SELECT %s + g * interval '1 hour', g %% 7, g, 'calm' FROM generate_series(0, %s) g",
            [self.start, DAYS * 24 - 1],
        )
        self.id = int(self.one("SELECT lakets.create_chronotable('metrics', 'ts', '1 day')"))
        self.slot = ""

    def sync(self) -> None:
        """What the feed would have done by now."""
        self.slot = f"gate_{os.getpid()}_{next(_numbers)}"
        self.db.execute("CREATE PUBLICATION thermocline FOR TABLE metrics WITH (publish_via_partition_root = true)")
        self.db.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self.slot])
        self.db.execute(
            "INSERT INTO thermocline.stream (slot_name, publication, system_identifier, timeline, epoch, position)"
            " SELECT %s, 'thermocline', system_identifier, timeline, 3, pg_current_wal_lsn()"
            " FROM thermocline._server_history()",
            [self.slot],
        )
        self.db.execute(
            "INSERT INTO thermocline.synced_table (chronotable_id, table_oid, status, lake_table, committed_lsn)"
            " SELECT id, table_oid, 'STREAMING', 'public.lb_metrics_history', pg_current_wal_lsn()"
            " FROM lakets._chronotable_registry"
        )
        self.db.execute(
            "INSERT INTO thermocline.chunk_copy (chunk_oid, chronotable_id, how, position, row_count)"
            " SELECT chunk_oid, chronotable_id, 'copied', pg_current_wal_lsn(), 0 FROM lakets._chunk_metadata"
        )

    def close(self) -> None:
        if self.slot:
            self.db.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [self.slot]
            )
        self.db.close()

    def ask(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return ask(self.db, statement, *parameters)

    def one(self, statement: str, *parameters: Any) -> Any:
        return one(self.db, statement, *parameters)

    def chunk(self, day: int = 0) -> int:
        """The oid of the chunk that starts so many days after the oldest."""
        return int(
            self.one(
                "SELECT chunk_oid::bigint FROM lakets._chunk_metadata WHERE range_start = %s",
                self.start + timedelta(days=day),
            )
        )

    def name(self, day: int = 0) -> str:
        return f"public.metrics_{self.start + timedelta(days=day):%Y%m%d_%H%M%S}"

    def receipt(self, day: int = 0) -> int:
        """A receipt of the chunk as it is now; the lake was looked at this moment."""
        return int(self.one(RECEIPT, self.chunk(day)))

    def codes(self, day: int = 0, *, gated: bool = True) -> list[str]:
        return self.codes_of(self.chunk(day), gated=gated)

    def codes_of(self, chunk: int, *, gated: bool = True) -> list[str]:
        return [code for (code,) in self.ask("SELECT code FROM thermocline._chunk_verdict(%s, NULL, %s)", chunk, gated)]

    def drop(self, day: int = 0) -> str:
        """Drop it by the one SQL function."""
        return str(self.one("SELECT thermocline._drop_chunk(%s)", self.chunk(day)))

    def status(self, day: int = 0) -> str:
        return str(
            self.one(
                "SELECT status FROM lakets._chunk_metadata WHERE range_start = %s", self.start + timedelta(days=day)
            )
        )

    def is_there(self, day: int = 0) -> bool:
        return bool(self.one("SELECT to_regclass(%s) IS NOT NULL", self.name(day)))

    def late(self, day: int = 0, sensor: int = 99) -> str:
        """An INSERT of one more row into a chunk's range."""
        at = self.start + timedelta(days=day, minutes=30)
        return f"INSERT INTO metrics (ts, sensor, v, mood) VALUES ('{at.isoformat()}', {sensor}, 1, 'wild')"

    def events(self) -> list[dict[str, Any]]:
        """Our messages in the stream."""
        found = self.ask(
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
            " 'publication_names', 'thermocline', 'messages', 'true') WHERE get_byte(data, 0) = ascii('M')",
            self.slot,
        )
        return [json.loads(bytes(data).split(b"thermocline\0", 1)[1][4:].splitlines()[0]) for (data,) in found]


@contextmanager
def metrics_table(dsn: str, *, synced: bool = True) -> Iterator[Metrics]:
    table = Metrics(dsn)
    try:
        if synced:
            table.sync()
        yield table
    finally:
        table.close()
