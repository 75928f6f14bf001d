"""Money that moves between tables: at every position that the feed has recorded, the lake has all of it and no more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from harness import sabotage
from harness.banks import Bank
from harness.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.crash_servers import CrashServer
    from harness.lakes import Lake

SCHEDULES_EACH = 33


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        found = seeds(metafunc.config)
        chosen = found[: max(1, len(found) // SCHEDULES_EACH)]
        metafunc.parametrize("seed", chosen, ids=[f"{number}" for number in range(len(chosen))])


@pytest.mark.slow
def test_m9_m10_m13_m17_g9_money_is_conserved_at_every_cut_of_several_tables(
    crashing: CrashServer, crashing_dsn: str, make_lake: Callable[[str], Lake], seed: int
) -> None:
    bank = Bank(make_lake(crashing_dsn), crashing, seed)
    bank.play()
    assert bank.cuts > 5


@pytest.mark.slow
@pytest.mark.parametrize("broken", [sabotage.hear_no_truncate, sabotage.forget_what_the_lake_has])
def test_a_feed_that_loses_or_doubles_money_is_found_out(
    crashing: CrashServer, crashing_template: str, make_lake: Callable[[str], Lake], broken: Callable[[], None]
) -> None:
    told = ""
    for fixed in range(6):
        with crashing.server().database(crashing_template) as dsn:
            try:
                Bank(make_lake(dsn), crashing, fixed, broken).play()
            except AssertionError as error:
                told = str(error)
                break
    assert re.match(r"at \d+ there is -?\d+ in the lake", told), told
