"""work, schedules, plans, audit: for people and for programs."""

from __future__ import annotations

import re
import signal
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from harness.processes import Command, finished
from harness.questions import ask, one
from work.stage import until

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg


@pytest.fixture
def command(tmp_path: Path, dsn: str) -> Command:
    (tmp_path / "home").mkdir()
    environment = {"THERMOCLINE_HOT_DSN": dsn, "THERMOCLINE_WORK_POLL": "0.1", "THERMOCLINE_WORK_IN_PROCESS": "true"}
    return Command(tmp_path / "home", environment)


@pytest.fixture
def table(db: psycopg.Connection) -> int:
    ask(db, "CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    ask(db, "INSERT INTO m SELECT now() - g * interval '1 day', g FROM generate_series(0, 5) g")
    number: int = one(db, "SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    ask(db, "SELECT lakets.add_retention_policy('m', '3 days')")
    return number


@pytest.mark.usefixtures("table")
def test_filters_leave_out_what_is_not_asked_for(command: Command, db: psycopg.Connection) -> None:
    ask(db, "CREATE TABLE n (LIKE m)")
    ask(db, "INSERT INTO n SELECT * FROM m")
    ask(db, "SELECT lakets.create_chronotable('n', 'ts', '1 day')")
    ask(db, "SELECT lakets.add_retention_policy('n', '3 days')")
    assert command.run("work", "--once").code == 0
    assert command.run("work", "pause", "tier", "--why", "to have something else in the audit").code == 0

    def found(what: str, field: str, *asked: str) -> set[str]:
        lines = command.run(*asked, "--json").json[what]
        assert lines
        return {line[field] for line in lines}

    assert found("plans", "object", "plans") == {"public.m", "public.n"}
    assert found("plans", "object", "plans", "--table", "n") == {"public.n"}
    assert command.run("plans", "--kind", "tier", "--json").json == {"plans": []}
    assert found("plans", "kind", "plans", "--kind", "retention") == {"retention"}
    assert found("audit", "action", "audit") == {"drop_chunk", "stop_work"}
    assert found("audit", "action", "audit", "--action", "drop_chunk") == {"drop_chunk"}
    assert all(one.startswith("public.n_") for one in found("audit", "object", "audit", "--table", "n"))
    assert found("units", "table", "work", "list", "--table", "n") == {"public.n"}
    assert found("units", "kind", "work", "list", "--kind", "prune") == {"prune"}


def test_once_does_what_is_due_and_says_what(command: Command, table: int, db: psycopg.Connection) -> None:
    ended = command.run("work", "--once", "--json")
    assert ended.code == 0
    assert ended.json == {"ended": {"done": 3}, "leases_lost": 0, "last_error": None}
    titles = command.run("work", "list").out.splitlines()[1]
    assert "Waits for" not in titles, "nothing waits"
    assert "Last error" not in titles
    assert "Status" in titles
    units = command.run("work", "list", "--json").json["units"]
    assert units[0].keys() >= {"waits_for", "last_error", "settled_by"}
    assert {(unit["kind"], unit["table"], unit["status"]) for unit in units} == {
        ("partitions", "public.m", "done"),
        ("retention", "public.m", "done"),
        ("prune", "", "done"),
    }
    (plan,) = command.run("plans", "--json").json["plans"]
    assert (plan["kind"], plan["object"], plan["destructive"]) == ("retention", "public.m", True)
    assert {line["action"] for line in plan["lines"]} == {"drop"}
    dropped = len(plan["lines"])
    acts = command.run("audit", "--table", "m", "--action", "drop_chunk", "--json").json["audit"]
    assert len(acts) == dropped >= 2
    assert acts[0]["reason"].endswith("drop_after 3 days")
    assert command.run("audit", "--since", "2100-01-01", "--json").json == {"audit": []}
    shown = command.run("plans", str(plan["id"]))
    assert "drop_after 3 days" in shown.out
    assert re.search(r"m_\d+_\d+ +drop +", shown.out)
    assert "{'" not in shown.out
    assert command.run("plans", "--table", "m").code == 0
    audited = command.run("audit")
    assert audited.code == 0
    assert re.search(r"drop_position \w+/\w+", audited.out)
    unit = next(unit for unit in units if unit["kind"] == "retention")
    for_people = command.run("work", "show", str(unit["id"])).out
    assert "{'" not in for_people
    assert f"dropped={dropped}" in for_people
    found = command.run("work", "show", str(unit["id"]), "--json").json
    assert (found["status"], found["attempt"], found["plan_id"]) == ("done", 1, plan["id"])
    assert found["result"]["dropped"] == dropped


def test_once_that_cannot_claim_says_so(command: Command, table: int, db: psycopg.Connection) -> None:
    """The scheduler makes the unit; every claim of it fails."""
    ask(db, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE division_by_zero; END $$")  # fmt: skip
    ask(db, "CREATE TRIGGER refuse BEFORE UPDATE ON thermocline.work_unit FOR EACH ROW EXECUTE FUNCTION refuse()")
    ended = command.run("work", "--once", "--json")
    assert ended.code == 1
    assert ended.json["ended"] == {}
    assert ended.json["last_error"].startswith("DivisionByZero")
    assert "What was due is done" not in command.run("work", "--once").out


def test_a_failing_unit_is_told_retried_and_cancelled(command: Command, table: int, db: psycopg.Connection) -> None:
    ask(db, "UPDATE lakets._chronotable_registry SET chunk_interval = '1 microsecond'")
    ended = command.run("work", "--once", "--kinds", "partitions")
    assert ended.code == 1
    assert "Not all of it is done" in ended.out
    (unit,) = command.run("work", "list", "--status", "pending", "--kind", "partitions", "--json").json["units"]
    assert "could not be seen to" in unit["last_error"]
    number = str(unit["id"])
    for _ in range(2):
        ask(db, "UPDATE thermocline.work_unit SET not_before = now() WHERE id = %s", unit["id"])
        command.run("work", "--once", "--kinds", "partitions")
    assert command.run("work", "show", number, "--json").json["status"] == "dead"
    ask(db, "UPDATE lakets._chronotable_registry SET chunk_interval = '1 day'")
    assert command.run("work", "retry", number, "--json").json == {"unit": unit["id"]}
    assert command.run("work", "--once", "--kinds", "partitions").code == 0
    again = command.run("work", "retry", number)
    assert again.code == 3
    assert f"Work unit {number} is done" in again.err
    assert "`thermocline work add partitions --table public.m` asks for the same work anew" in again.err
    cancelled = command.run("work", "cancel", number)
    assert cancelled.code == 3
    assert f"Work unit {number} is done already" in cancelled.err
    assert f"thermocline work show {number}" in cancelled.err
    assert "There is no work unit 999" in command.run("work", "cancel", "999").err


def test_a_dead_unit_is_laid_to_rest_by_hand(command: Command, table: int, db: psycopg.Connection) -> None:
    number = one(
        db,
        "INSERT INTO thermocline.work_unit (kind, chronotable_id, status, ended_at, last_error)"
        " VALUES ('tier', %s, 'dead', now(), 'it broke') RETURNING id",
        table,
    )
    assert command.run("work", "cancel", str(number), "--json").json == {"unit": number, "taken_from": None}
    assert state(db, number) == ("cancelled", "cancelled by postgres; it broke")
    assert command.run("work", "cancel", str(number)).code == 3


def state(db: psycopg.Connection, number: int) -> Any:
    (found,) = ask(db, "SELECT status, last_error FROM thermocline.work_unit WHERE id = %s", number)
    return found


def test_what_waits_says_for_what(command: Command, table: int, db: psycopg.Connection) -> None:
    def waits_for(number: int) -> Any:
        (unit,) = [one for one in command.run("work", "list", "--json").json["units"] if one["id"] == number]
        return unit["waits_for"]

    added = command.run("work", "add", "retention", "--table", "m", "--json").json
    assert (added["status"], added["waits_for"]) == ("pending", "a free worker")
    unit = added["unit"]
    command.run("work", "pause", "destructive")
    command.run("work", "pause", "retention")
    assert waits_for(unit) == "destructive and retention is paused"
    again = command.run("work", "add", "retention", "--table", "m", "--json").json
    assert again == {"unit": unit, "status": "pending", "waits_for": "destructive and retention is paused"}
    command.run("work", "pause", "destructive", "--off")
    command.run("work", "pause", "retention", "--off")
    lane = one(db, "SELECT lane FROM thermocline.work_unit WHERE id = %s", unit)
    other = one(
        db,
        "INSERT INTO thermocline.work_unit (kind, chronotable_id, lane, status, owner, lease_until)"
        " VALUES ('verify', %s, %s, 'claimed', 'somebody', now() + interval '1 h') RETURNING id",
        table, lane,
    )  # fmt: skip
    assert waits_for(unit) == f"unit {other}, of the same table"
    ask(db, "UPDATE thermocline.work_unit SET not_before = now() + interval '1 h', attempt = 1 WHERE id = %s", unit)
    assert waits_for(unit) == "its next attempt"
    closed = one(db, "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '2 h', 'HH24:00')")
    closes = one(db, "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '3 h', 'HH24:00')")
    rows = command.run("schedules", "set", "retention", "--window", f"runs {closed}-{closes}", "--cron", "* * * * *",
                       "--json").json["schedules"]  # fmt: skip
    assert datetime.fromisoformat(rows[0]["next_at"]).strftime("%H:%M") == closed, "not before its window"
    ask(db, "UPDATE thermocline.work_unit SET not_before = now(), schedule_id ="
        " (SELECT id FROM thermocline.schedule WHERE kind = 'retention') WHERE id = %s", unit)  # fmt: skip
    assert waits_for(unit) == f"its window: runs {closed}-{closes} UTC"
    assert command.run("work", "show", str(unit), "--json").json["waits_for"] == waits_for(unit)
    assert waits_for(other) is None


@pytest.mark.parametrize(
    ("kind", "serves"),
    [("verify", "synced tables"), ("tier", "tables with a tiering policy"), ("refresh", "tables with RollUps")],
)
def test_work_that_there_is_nothing_to_do_for_is_refused(
    command: Command, table: int, db: psycopg.Connection, kind: str, serves: str
) -> None:
    ended = command.run("work", "add", kind, "--table", "m")
    assert ended.code == 3
    assert f"{kind} is for {serves}, and m is none of them" in ended.err
    assert ask(db, "SELECT FROM thermocline.work_unit") == []


def test_a_running_unit_is_taken_from_its_worker(command: Command, table: int, db: psycopg.Connection) -> None:
    number = command.run("work", "add", "partitions", "--table", "m", "--json").json["unit"]
    ask(db, "UPDATE thermocline.work_unit SET status = 'claimed', owner = 'somebody', lease_epoch = 1,"
        " lease_until = now() + interval '1 h'")  # fmt: skip
    assert command.run("work", "cancel", str(number), "--json").json == {"unit": number, "taken_from": "somebody"}
    assert ask(db, "SELECT status, last_error FROM thermocline.work_unit") == [("cancelled", "cancelled by postgres")]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["work", "--kinds", "partitions,nothing"], 3, "no kind of work called 'nothing'"),
        (["work", "--concurrency", "0"], 2, "'--concurrency'"),
        (["work", "--once", "--kinds", ","], 3, "No kind of work is named"),
        (["work", "--once", "--kinds", ""], 3, "No kind of work is named"),
        (["work", "list", "--limit", "99999999999999999999"], 2, "'--limit'"),
        (["work", "show", "99999999999999999999"], 2, "'number'"),
        (["plans", "99999999999999999999"], 2, "'number'"),
        (["work", "add", "nothing"], 3, "no kind of work called 'nothing'"),
        (["work", "add", "retention"], 3, "retention is for one table"),
        (["work", "add", "prune", "--table", "m"], 3, "prune is for the whole database"),
        (["work", "add", "tier", "--table", "none"], 3, "public.none is not a ChronoTable"),
        (["work", "show", "77"], 3, "There is no work unit 77"),
        (["work", "list", "--status", "happy"], 3, "No unit is ever 'happy'"),
        (["work", "pause", "destructve"], 3, "Say destructive, everything, or one of"),
        (["schedules", "set", "tier", "--every", "9999999d"], 3, "366 days are the most"),
        (["schedules", "set", "tier", "--every", "99999999999d"], 3, "366 days are the most"),
        (["sql", "SELECT 1", "--as-of", "yesterday"], 3, "yesterday is neither a position nor a moment"),
        (["sql", "SELECT 1", "--as-of", "2026-11-16"], 3, "has no zone"),
        (["sql", "SELECT 1", "--as-of", "0/1", "--explain"], 3, "Leave out --explain or --as-of"),
        (["rehydrate", "m", "--from", "2026-01-01", "--to", "2026-01-02", "--until", "soon"], 3, "'soon' is no length"),
        (["rehydrate", "m", "--from", "2026-01-01", "--to", "2026-01-02", "--until", "0d"], 3, "'0d' is no length"),
        (["rehydrate", "m", "--from", "soon", "--to", "2026-01-02"], 2, "'soon' is no moment"),
        (["audit", "--since", "2026-13-01"], 2, "'2026-13-01' is no moment"),
        (["schedules", "set", "nothing", "--every", "5m"], 3, "no kind of work called 'nothing'"),
        (["schedules", "set", "tier", "--every", "soon"], 3, "'soon' is no interval"),
        (["schedules", "set", "tier", "--cron", "61 * * * *"], 3, "is no cron line"),
        (["schedules", "set", "tier", "--cron", "0 0 31 2 *"], 3, "0 0 31 2 *"),
        (["schedules", "set", "tier", "--window", "at night"], 3, "'at night' is no window"),
        (["schedules", "set", "tier", "--every", "5m", "--cron", "* * * * *"], 3, "either an interval or a cron line"),
        (["schedules", "set", "tier", "--table", "none", "--off"], 3, "public.none is not a ChronoTable"),
        (["schedules", "set", "tier"], 3, "Nothing is said that the schedule of tier should be set to"),
        (["schedules", "set", "prune", "--table", "m", "--every", "5m"], 3, "prune is for the whole database"),
        (["work", "list", "--kind", "nothing"], 3, "no kind of work called 'nothing'"),
        (["work", "list", "--table", "none"], 3, "public.none is not a ChronoTable"),
        (["plans", "--kind", "nothing"], 3, "no kind of work called 'nothing'"),
        (["plans", "--table", "none"], 3, "public.none is not a ChronoTable"),
        (["plans", "77"], 3, "There is no plan 77"),
        (["audit", "--table", "none"], 3, "public.none is not a ChronoTable"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_refused_by_name(command: Command, arguments: list[str], code: int, said: str) -> None:
    ended = command.run(*arguments)
    assert ended.code == code, ended
    assert said in ended.err


def test_schedules_are_listed_and_set(command: Command, table: int) -> None:
    assert len(command.run("schedules", "--json").json["schedules"]) == 9
    told = ["--table", "m", "--cron", "30 2 * * *", "--window", "runs 22:00-06:00"]
    rows = command.run("schedules", "set", "retention", *told, "--json").json["schedules"]
    assert [(row["table"], row["cron"], row["window"], row["enabled"]) for row in rows] == [
        (None, None, None, True),
        ("public.m", "30 2 * * *", "runs 22:00-06:00", True),
    ]
    rows = command.run("schedules", "set", "retention", "--table", "m", "--window", "none", "--off", "--json").json
    assert [(row["window"], row["enabled"]) for row in rows["schedules"]] == [(None, True), (None, False)]
    assert command.run("schedules", "reset", "retention", "m", "--json").json == {"had_its_own": True}
    assert "partitions" in command.run("schedules").out


def test_verify_of_a_table_that_is_not_synced_is_refused_once_and_without_spark(command: Command, table: int) -> None:
    ended = command.run("verify", "m", THERMOCLINE_WORK_IN_PROCESS="false")
    assert ended.code == 3
    assert ended.err.count("public.m is not synced") == 1
    assert "lakets.enable_sync('m', 'public')" in ended.err
    assert not (command.home / "logs" / "spark-driver.log").exists()


def test_lists_with_nothing_in_them_say_so(command: Command, table: int) -> None:
    assert "There is no unit yet" in command.run("work", "list").out
    assert "No unit is like that" in command.run("work", "list", "--status", "dead").out
    assert "Nothing has been planned yet" in command.run("plans").out
    assert "No plan of that is kept" in command.run("plans", "--table", "m").out
    assert "Nothing has been removed yet" in command.run("audit").out
    assert "Nothing of that is in the audit" in command.run("audit", "--table", "m").out


def test_a_schedule_that_is_set_shows_when_it_is_due_by_the_new_rule(
    command: Command, table: int, db: psycopg.Connection
) -> None:
    command.run("work", "--once", "--kinds", "partitions")

    def shown(*told: str) -> tuple[str, Any]:
        (row,) = command.run("schedules", "set", "partitions", *told, "--json").json["schedules"]
        return row["next_at"], one(db, "SELECT last_at FROM thermocline.schedule_run WHERE kind = 'partitions'")

    next_at, last_at = shown("--every", "2h")
    assert datetime.fromisoformat(next_at) == last_at + timedelta(hours=2)
    assert shown("--cron", "30 2 * * *")[0].endswith("02:30:00+00:00")


def test_what_is_stopped_is_shown_and_goes_on(command: Command, table: int, db: psycopg.Connection) -> None:
    assert "Nothing is stopped" in command.run("work", "pause").out
    assert command.run("work", "pause", "destructive", "--why", "to look").code == 0
    (stop,) = command.run("work", "pause", "--json").json["stopped"]
    assert (stop["what"], stop["why"], stop["who"]) == ("destructive", "to look", "postgres")
    command.run("work", "--once")
    assert one(db, "SELECT status FROM thermocline.work_unit WHERE kind = 'retention'") == "pending"
    assert one(db, "SELECT count(*) FROM m") == 6
    assert command.run("work", "pause", "destructive", "--off").code == 0
    assert command.run("work", "--once").code == 0
    assert one(db, "SELECT count(*) FROM m") < 6


def test_a_node_runs_until_it_is_told_to_stop(command: Command, table: int, db: psycopg.Connection) -> None:
    process = command.start("work", "--json")
    try:
        until(lambda: one(db, "SELECT count(*) FROM thermocline.work_unit WHERE status = 'done'") == 3)
    finally:
        process.send_signal(signal.SIGTERM)
        ended = finished(process)
    assert ended.code == 0
    assert ended.json["ended"] == {"done": 3}
