"""What `procrastinate.py` runs: `dsn fill jobs` makes the schema and defers jobs, `dsn drain at_once` runs them."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any


def app_on(dsn: str) -> Any:
    """An app with one task, which does nothing."""
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    import procrastinate  # type: ignore[import-not-found, unused-ignore]

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))

    @app.task(name="nothing")  # type: ignore[untyped-decorator, unused-ignore]
    async def nothing() -> None:
        """Nothing."""

    return app


async def fill(app: Any, jobs: int) -> None:
    """Defer so many jobs, after removing those that were there."""
    async with app.open_async():
        there = await app.connector.execute_query_one_async(
            "SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS it"
        )
        if not there["it"]:
            await app.schema_manager.apply_schema_async()
        await app.connector.execute_query_async("TRUNCATE procrastinate_jobs CASCADE")
        await app.tasks["nothing"].batch_defer_async(*[{} for _ in range(jobs)])


async def drain(app: Any, at_once: int) -> None:
    """Wait for a line, then run until nothing waits."""
    async with app.open_async():
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await app.run_worker_async(
            wait=False, concurrency=at_once, install_signal_handlers=False, listen_notify=False, delete_jobs="never"
        )


if __name__ == "__main__":
    called, todo, number = app_on(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    asyncio.run(fill(called, number) if todo == "fill" else drain(called, number))
