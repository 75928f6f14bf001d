"""What `thermocline doctor` looks at: this machine, the settings and the server. Nothing of it changes anything."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from thermocline.checks import Check
from thermocline.errors import ThermoclineError
from thermocline.hot import install, suitability
from thermocline.hot.binaries import Binaries
from thermocline.lake import jars, java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from thermocline.stack import Stack


def examine(stack: Stack) -> Iterator[Check]:
    """Every check."""
    major, minor = sys.version_info[:2]
    yield Check.ok("Python", f"{major}.{minor}")
    yield _checked("home", lambda: _home(stack))
    yield _checked("Java", lambda: _java(stack))
    yield _jars(stack)
    yield _checked("catalogs", lambda: _catalogs(stack))
    if stack.is_embedded:
        yield _checked("embedded PostgreSQL", lambda: _embedded(stack))
    yield from _server(stack)


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check.ok(name, look())
    except ThermoclineError as error:
        return Check.from_error(name, error)


def _home(stack: Stack) -> str:
    stack.home.check()
    return f"{stack.home.root}{'' if stack.home.root.is_dir() else ', to be made'}"


def _java(stack: Stack) -> str:
    found = java.look(stack.settings.java)
    return f"{found.version}, {found.source}"


def _jars(stack: Stack) -> Check:
    needed = stack.needed_jars()
    absent = jars.missing(needed, stack.home)
    if absent:
        names = ", ".join(jar.coordinate for jar in absent)
        next_step = "`thermocline up` fetches them; it needs the network."
        return Check.warning("jars", f"not fetched yet: {names}", next_step)
    broken = jars.damaged(needed, stack.home)
    if broken:
        names = ", ".join(jar.coordinate for jar in broken)
        return Check.failed("jars", f"damaged: {names}", f"Delete {stack.home.ivy}; `thermocline up` fetches anew.")
    return Check.ok("jars", f"{len(needed)} verified")


def _catalogs(stack: Stack) -> str:
    described = stack.described_catalogs()
    for catalog in described.values():
        catalog.check()
    return ", ".join(f"{catalog.name}: {catalog.kind}" for catalog in described.values())


def _embedded(stack: Stack) -> str:
    Binaries.of(stack.settings.hot.version)
    return f"PostgreSQL {stack.settings.hot.version} is in this environment"


def _server(stack: Stack) -> Iterator[Check]:
    try:
        with stack.session() as session:
            facts = suitability.look(session)
            present = install.installed(session)
    except ThermoclineError as error:
        yield Check.from_error("server", error)
        return
    yield from suitability.judge(facts)
    yield install.check(present)
