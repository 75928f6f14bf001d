"""`thermocline run` as a process: it answers for itself, stops in good order, and comes through what goes wrong."""

from __future__ import annotations

import signal
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from harness import prometheus
from harness.crash_servers import crash_server
from harness.lakes import NOON, Lake
from harness.processes import Command, finished
from harness.questions import ask, one
from service.watching import Running, asked, log_lines, metrics, until
from thermocline.service.http import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., Running]


@pytest.fixture
def command(tmp_path: Path, dsn: str) -> Command:
    (tmp_path / "home").mkdir()
    return Command(tmp_path / "home", {"THERMOCLINE_HOT_DSN": dsn, "THERMOCLINE_WORK_POLL": "0.1"})


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as held:

        def started(command: Command, *arguments: str) -> Running:
            running = Running(command, *arguments)
            held.callback(running.end)
            return running

        yield started


def made(db: psycopg.Connection) -> None:
    ask(db, "CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    ask(db, "INSERT INTO m SELECT now() - g * interval '1 day', g FROM generate_series(0, 5) g")
    ask(db, "SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    ask(db, "SELECT lakets.add_retention_policy('m', '3 days')")


@pytest.mark.promise("002-36")
def test_it_works_answers_and_stops_without_spark(db: psycopg.Connection, command: Command, start: Start) -> None:
    made(db)
    running = start(command, "--json")
    said = running.wait_until_ready()
    assert {name: (part["state"], part["restarts"]) for name, part in said["parts"].items()} == {
        "feed": ("waiting", 0),
        "scheduler": ("running", 0),
        "worker": ("running", 0),
    }
    assert said["parts"]["feed"]["why"] == "no table is synced"
    assert said["database"] == "answers"
    until(lambda: one(db, "SELECT count(*) FROM thermocline.work_unit WHERE status = 'done'") == 3)
    assert asked(f"{running.url}/healthz") == (200, '{"healthy": true}\n')
    assert asked(f"{running.url}/elsewhere")[0] == 404
    assert running.url.startswith("http://127.0.0.1:")
    runs = "chunk_retention_runs_total{status=ok,table=public.m}"
    found = until(lambda: runs in (now := metrics(running.url)) and now)
    assert (found[runs], found["work_attempts_total{kind=retention,outcome=done}"]) == (1, 1)
    assert [found[f"service_part_up{{part={part}}}"] for part in ("feed", "scheduler", "worker")] == [1, 1, 1]
    assert running.children("java") == []

    running.process.send_signal(signal.SIGTERM)
    ended = finished(running.process)
    assert (ended.code, ended.json) == (0, {"stopped": True})
    lines = log_lines(command.home / "logs" / "thermocline.log")
    assert [line["event"] for line in lines][-1] == "service stopped"
    (dropped,) = (line for line in lines if line["event"] == "unit ended" and line["kind"] == "retention")
    unit = ask(db, "SELECT id, lease_epoch, plan_id FROM thermocline.work_unit WHERE kind = 'retention'")[0]
    assert (dropped["unit"], dropped["epoch"], dropped["plan"]) == unit
    assert (dropped["table"], dropped["outcome"], dropped["error"]) == ("public.m", "done", None)
    assert dropped["seconds"] > 0


def test_it_is_not_ready_while_nothing_can_be_claimed(db: psycopg.Connection, command: Command, start: Start) -> None:
    """The table of units is away: everybody who asks gets an answer, and it is told why; then it goes on by itself."""
    running = start(command)
    running.wait_until_ready()
    ask(db, "ALTER TABLE thermocline.work_unit RENAME TO elsewhere")
    until(lambda: running.readiness()["parts"]["worker"]["state"] == "degraded")
    said = running.readiness()
    assert not said["ready"]
    assert "thermocline.work_unit" in said["parts"]["worker"]["why"]
    assert metrics(running.url)["database_up"] == 0
    ask(db, "ALTER TABLE thermocline.elsewhere RENAME TO work_unit")
    until(lambda: running.readiness()["parts"]["worker"]["state"] == "running")
    assert running.readiness()["parts"]["worker"]["restarts"] == 0


def test_a_host_that_is_not_there_is_a_wrong_setting(command: Command) -> None:
    refused = command.run("run", "--host", "no-such-host.invalid", "--port", "0", "--json")
    assert refused.json["error"]["code"] == "config.invalid", refused
    assert "no-such-host.invalid" in refused.json["error"]["message"]


def test_a_question_that_fails_is_answered() -> None:
    def fails() -> tuple[bool, dict[str, Any]]:
        raise RuntimeError("nobody thought of it")

    with Watch("127.0.0.1", 0, CollectorRegistry(), healthy=fails, ready=fails) as watch:
        assert asked(f"{watch.url}/readyz") == (500, "That failed; the log says more.\n")


def test_ctrl_c_ends_it_and_a_taken_address_is_refused(command: Command, start: Start) -> None:
    running = start(command)
    running.wait_until_ready()
    assert metrics(running.url)["process_resident_memory_bytes"] < 120e6, (
        "with nothing to do it holds neither Spark nor Arrow"
    )
    port = running.url.rpartition(":")[2]
    refused = command.run("run", "--port", port, "--json")
    assert refused.code == 6
    assert refused.json["error"]["code"] == "service.address_taken"
    assert f"127.0.0.1:{port}" in refused.json["error"]["message"]
    running.process.send_signal(signal.SIGINT)
    ended = finished(running.process)
    assert ended.code == 0, ended
    assert "Stopped" in ended.out


def test_an_embedded_server_that_does_not_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    ended = Command(tmp_path / "home").run("run", "--json")
    assert ended.code != 0
    assert "thermocline up" in ended.json["error"]["next_step"]


@pytest.mark.slow
@pytest.mark.promise("002-35")
def test_a_real_prometheus_scrapes_it(db: psycopg.Connection, command: Command, start: Start, tmp_path: Path) -> None:
    executable, promtool = prometheus.program("prometheus"), prometheus.program("promtool")
    if executable is None or promtool is None:
        pytest.skip("there is no Prometheus on this machine, and its packages have none")
    made(db)
    running = start(command)
    running.wait_until_ready()
    text = asked(f"{running.url}/metrics")[1]
    checked = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    with prometheus.scraping(executable, running.url.removeprefix("http://"), tmp_path / "prometheus") as scraper:
        until(lambda: scraper.value("up") == 1)
        until(lambda: scraper.value('thermocline_chunk_retention_runs_total{table="public.m",status="ok"}') == 1)
        dropped = one(db, "SELECT sum(bytes) FROM thermocline.audit WHERE action = 'drop_chunk'")
        # A scrape that takes too long leaves a gap, so each is asked for until there is an answer.
        until(lambda: scraper.value("thermocline_chunk_retention_bytes_freed_total") == dropped)
        until(lambda: scraper.value('sum(thermocline_work_units{status="dead"})') == 0)
        until(lambda: scraper.value('histogram_quantile(0.5, thermocline_work_unit_seconds_bucket{kind="retention"})'))
        ask(db, "INSERT INTO thermocline.work_unit (kind, status, ended_at) VALUES ('tier', 'dead', now())")
        until(lambda: scraper.value('sum(thermocline_work_units{status="dead"})') == 1)


@pytest.mark.slow
def test_it_comes_through_a_database_that_is_gone_for_a_while(tmp_path: Path, major: int, start: Start) -> None:
    """Alive all the time, not ready meanwhile, and the work goes on by itself."""
    (tmp_path / "home").mkdir()
    with (
        crash_server(tmp_path / "server", major) as server,
        server.server().template() as template,
        server.server().database(template) as dsn,
    ):
        with psycopg.connect(dsn, autocommit=True) as db:
            made(db)
        command = Command(tmp_path / "home", {"THERMOCLINE_HOT_DSN": dsn, "THERMOCLINE_WORK_POLL": "0.1"})
        running = start(command)
        running.wait_until_ready()

        def gone() -> Any:
            said = running.readiness()
            assert asked(f"{running.url}/healthz")[0] == 200
            up = metrics(running.url)["database_up"]
            return not said["ready"] and up == 0 and said["parts"]["scheduler"]["state"] == "degraded"

        server.crash()
        until(gone)
        server.start()
        with psycopg.connect(dsn, autocommit=True) as db:
            number = one(db, "INSERT INTO thermocline.work_unit (kind, scope) VALUES ('prune', 'again') RETURNING id")
            running.wait_until_ready()
            assert running.readiness()["parts"]["scheduler"]["restarts"] >= 1
            until(lambda: one(db, "SELECT status FROM thermocline.work_unit WHERE id = %s", number) == "done")
        running.process.send_signal(signal.SIGTERM)
        assert finished(running.process).code == 0


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)  # Spark is started three times
def test_feed_and_gate_share_one_spark_that_may_die(dsn: str, tmp_path: Path, start: Start) -> None:
    """Rows reach the lake, chunks are compared, flagged and dropped by units of work, on one Java that is replaced."""
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.run("SELECT lakets.add_tiering_policy('m', '1 day')", "SELECT lakets.add_retention_policy('m', '2 days')")
    command = Command(
        lake.stack.home.root,
        {"THERMOCLINE_HOT_DSN": dsn, "THERMOCLINE_WORK_POLL": "0.1", "THERMOCLINE_FEED_INTERVAL": "0"},
    )
    running = start(command)

    def ended(kind: str) -> dict[str, Any] | None:
        fields = "status, result, last_error"
        found = lake.run(f"SELECT {fields} FROM thermocline.work_unit WHERE kind = '{kind}' ORDER BY id")
        assert not found or found[-1][0] in ("pending", "claimed", "done"), found
        return found[-1][1] if found and found[-1][0] == "done" else None

    def done(kind: str) -> dict[str, Any]:
        """Asked for again until it has found something to do: the feed may still be copying."""
        lake.run("UPDATE thermocline.work_unit SET not_before = now(), attempt = 0 WHERE status = 'pending'")
        result = ended(kind)
        if result is not None and not result.get({"tier": "tiered", "retention": "dropped", "verify": "proven"}[kind]):
            command.run("work", "add", kind, "--table", "m")
            return {}
        return result or {}

    assert until(lambda: done("tier"), 300)["tiered"] >= 1
    assert until(lambda: done("retention"), 300)["dropped"] >= 1
    assert command.run("work", "add", "verify", "--table", "m").code == 0
    assert until(lambda: done("verify"), 300)["proven"] >= 1
    (java,) = running.children("java")
    running.wait_until_ready()
    found = metrics(running.url)
    assert found["chunk_retention_rows_dropped_total{table=public.m}"] >= 24
    assert found["feed_up"] == 1

    java.kill()
    until(lambda: running.readiness()["parts"]["feed"]["state"] == "degraded")
    until(lambda: running.readiness()["parts"]["feed"]["state"] == "running", 300)
    assert len(running.children("java")) == 1
    lake.run(f"INSERT INTO m VALUES ('{NOON[3]}', 900, 1)")
    until(lambda: _in_lake(lake, 900), 300)

    running.process.kill()  # and once more from nothing
    running.process.communicate()
    lake.run(f"INSERT INTO m VALUES ('{NOON[3]}', 901, 1)")
    again = start(command)
    until(lambda: _in_lake(lake, 901), 300)
    again.process.send_signal(signal.SIGTERM)
    assert finished(again.process).code == 0
    assert not lake.stack.feed_status().running


def _in_lake(lake: Lake, number: int) -> bool:
    with lake.stack.catalog() as catalog:
        table = catalog.load_table("public.lb_m_history")
        return bool(table.scan(row_filter=f"id == {number}").to_arrow().num_rows)


def test_a_node_of_its_own_shows_what_it_counts(command: Command) -> None:
    process = command.start("work", "--port", "0", "--kinds", "prune")
    try:
        log = command.home / "logs" / "thermocline.log"
        url = until(lambda: [line["url"] for line in log_lines(log) if line["event"] == "node shown"])[0]
        done = "work_attempts_total{kind=prune,outcome=done}"
        until(lambda: metrics(url).get(done) == 1)
        assert metrics(url)["process_resident_memory_bytes"] > 0
        assert asked(f"{url}/readyz") == (200, '{"ready": true, "trouble": null}\n')
        assert asked(f"{url}/healthz")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
