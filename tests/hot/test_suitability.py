"""What doctor says of a server, and to the letter what to change."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.clock import FrozenClock
from harness.homes import home_with_jars
from harness.roles import role
from thermocline.checks import Verdict
from thermocline.errors import ServerUnsuited
from thermocline.hot import suitability
from thermocline.hot.suitability import ServerFacts

if TYPE_CHECKING:
    from harness.processes import Command

GOOD = ServerFacts(
    server_version_num=180004,
    wal_level="logical",
    max_locks_per_transaction=1024,
    max_connections=100,
    max_replication_slots=10,
    used_replication_slots=0,
    max_wal_senders=10,
    idle_replication_slot_timeout="0",
    max_slot_wal_keep_size="-1",
    role="app",
    may_replicate=True,
    database="metrics",
    may_create=True,
    now=datetime(2026, 1, 5, 12, tzinfo=UTC),
    fsync="on",
)


def test_a_good_server_passes_every_check() -> None:
    assert {check.verdict for check in suitability.judge(GOOD, FrozenClock())} == {Verdict.OK}
    suitability.require(GOOD)


@pytest.mark.parametrize(
    ("change", "name", "verdict", "fix"),
    [
        ({"server_version_num": 140012}, "version", "failed", "Upgrade to 15 or newer."),
        ({"server_version_num": 190000}, "version", "warning", "Only 15 to 18 are tested."),
        (
            {"wal_level": "replica"},
            "wal_level",
            "failed",
            "As a superuser: ALTER SYSTEM SET wal_level = 'logical'; then restart PostgreSQL.",
        ),
        (
            {"used_replication_slots": 10},
            "replication slots",
            "failed",
            "As a superuser: ALTER SYSTEM SET max_replication_slots = 14; then restart PostgreSQL.",
        ),
        (
            {"max_wal_senders": 0},
            "WAL senders",
            "failed",
            "As a superuser: ALTER SYSTEM SET max_wal_senders = 10; then restart PostgreSQL.",
        ),
        (
            {"max_locks_per_transaction": 64},
            "locks",
            "warning",
            "As a superuser: ALTER SYSTEM SET max_locks_per_transaction = 1024; then restart PostgreSQL.",
        ),
        (
            {"may_replicate": False, "role": 'we"ird'},
            "replication right",
            "failed",
            'As a superuser: ALTER ROLE "we""ird" REPLICATION;',
        ),
        (
            {"may_create": False},
            "create right",
            "failed",
            'As its owner: GRANT CREATE ON DATABASE "metrics" TO "app";',
        ),
        (
            {"idle_replication_slot_timeout": "1d"},
            "slot limits",
            "warning",
            "As a superuser: ALTER SYSTEM SET idle_replication_slot_timeout = 0; then SELECT pg_reload_conf();",
        ),
        (
            {"fsync": "off"},
            "fsync",
            "warning",
            "As a superuser: ALTER SYSTEM SET fsync = on; then SELECT pg_reload_conf();",
        ),
    ],
)
def test_each_flaw_is_named_with_its_remedy(change: dict[str, Any], name: str, verdict: str, fix: str) -> None:
    facts = replace(GOOD, **change)
    flawed = [check for check in suitability.judge(facts, FrozenClock()) if check.verdict is not Verdict.OK]
    assert [(check.name, check.verdict, check.fix) for check in flawed] == [(name, verdict, fix)]
    if verdict == "failed":
        with pytest.raises(ServerUnsuited):
            suitability.require(facts)


def test_clocks_that_differ_are_noticed() -> None:
    clock = FrozenClock(GOOD.now)
    clock.advance(seconds=61)
    (flawed,) = [c for c in suitability.judge(GOOD, clock) if c.verdict is not Verdict.OK]
    assert (flawed.name, flawed.verdict) == ("clock", Verdict.WARNING)
    assert "61 s" in flawed.found


def test_the_facts_of_a_real_server_are_read(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        facts = suitability.look(session)
    assert facts.wal_level == "logical"
    assert facts.may_replicate
    assert facts.may_create
    assert abs((facts.now - datetime.now(UTC)).total_seconds()) < 60


def test_doctor_on_a_role_without_replication_says_what_to_grant(empty_dsn: str, command: Command) -> None:
    home_with_jars(command.home)
    with role(empty_dsn, "limited") as limited:
        ended = command.run("doctor", "--json", THERMOCLINE_HOT_DSN=limited)
        up = command.run("up", "--json", THERMOCLINE_HOT_DSN=limited)
    assert ended.code == 4
    fixes = {check["check"]: check["fix"] for check in ended.json["checks"] if check["verdict"] == "failed"}
    assert fixes["replication right"] == 'As a superuser: ALTER ROLE "limited" REPLICATION;'
    assert up.code == 4
    assert up.json["error"]["code"] == "hot.unsuited"
    assert 'ALTER ROLE "limited" REPLICATION;' in up.json["error"]["next_step"]


def test_doctor_on_a_server_with_wal_level_replica_says_exactly_what_to_change(
    embedded_home: Command, major: int
) -> None:
    first = embedded_home.run("up", "--json").json
    embedded_home.run("down")
    conf = embedded_home.home / "postgres" / str(major) / "data" / "postgresql.conf"
    conf.write_text(conf.read_text() + "\nwal_level = replica\n")
    started = embedded_home.run("up", "--json")
    assert started.code == 4, "up refuses, and says the same"
    ended = embedded_home.run("doctor", "--json")
    assert ended.code == 4
    failed = [check for check in ended.json["checks"] if check["verdict"] == "failed"]
    assert failed == [
        {
            "check": "wal_level",
            "verdict": "failed",
            "found": "wal_level is replica; the change feed needs logical.",
            "fix": "As a superuser: ALTER SYSTEM SET wal_level = 'logical'; then restart PostgreSQL.",
        }
    ]
    # What it says to do is what helps.
    with psycopg.connect(first["dsn"], autocommit=True) as session:
        session.execute("ALTER SYSTEM SET wal_level = 'logical'")
    embedded_home.run("down")
    assert embedded_home.run("up", "--json").code == 0
    assert embedded_home.run("doctor", "--json").code == 0


def test_doctor_and_status_as_a_role_that_may_not_look_say_so(dsn: str, command: Command) -> None:
    """The SQL was installed by another role."""
    grant = "GRANT CREATE ON DATABASE {database} TO {role}"
    with role(dsn, "second", "REPLICATION", grant) as second:
        doctor = command.run("doctor", "--json", THERMOCLINE_HOT_DSN=second)
        failed = [check for check in doctor.json["checks"] if check["verdict"] == "failed"]
        assert doctor.code == 4
        assert [check["check"] for check in failed] == ["server"]
        assert "permission denied for schema thermocline" in failed[0]["found"]
        for verb in (["status"], ["uninstall", "--yes"]):
            ended = command.run(*verb, "--json", THERMOCLINE_HOT_DSN=second)
            assert (ended.code, ended.json["error"]["code"]) == (4, "hot.unsuited")
