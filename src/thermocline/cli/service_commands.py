"""The command of the service: run."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Verbose


def run(
    host: Annotated[
        str | None, typer.Option("--host", help="Address of health and metrics; loopback unless set.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Its port; 0: any free one.")] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", min=1, max=64, help="Units at once.")] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run everything that goes by itself in one process: feed, scheduler and worker. Ctrl-C or SIGTERM ends it.

    A part that fails is started anew. Health is at /healthz and /readyz, metrics for Prometheus are at /metrics.

    Example: thermocline run --port 9500
    """
    from thermocline.service.service import Service

    call = Invocation(json=json, verbose=verbose)
    settings, work = call.settings.service, call.settings.work
    given = {"host": host, "port": port}
    settings = settings.model_copy(update={name: value for name, value in given.items() if value is not None})
    if concurrency is not None:
        work = work.model_copy(update={"concurrency": concurrency})
    call.stack.dsn  # noqa: B018 (an embedded server that does not run is refused here, not retried)
    service = Service(call.stack, settings=settings, work=work)
    for told in (signal.SIGTERM, signal.SIGINT):
        signal.signal(told, lambda *_: service.stop())
    with call.out.step("Running the service; Ctrl-C ends it") as say:
        service.run(say)
    call.out.facts("Stopped", {"stopped": True})
