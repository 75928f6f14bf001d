"""A table in shadow mode beside its writers, and what its mirror holds."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Self

import psycopg

from harness.lakes import NOON, Lake, Row

SHADOW = "SELECT lakets.enable_sync('m', p_mode => 'shadow')"
DIRECT = "SELECT lakets.enable_sync('m', p_mode => 'direct')"


def shadow(lake: Lake, name: str = "_shadow_m") -> Counter[Row]:
    return Counter(lake.run(f'SELECT * FROM lakets_cdf."{name}"'))


def require_same(lake: Lake) -> None:
    """Mirror, history and table are one."""
    lake.drain()
    assert shadow(lake) == lake.hot()
    assert lake.folded("_shadow_m") == lake.hot()


class Writers:
    """Sessions that write to the table m until they are told to stop; whatever they meet is an error."""

    def __init__(self, lake: Lake, count: int = 2) -> None:
        self._stop = threading.Event()
        self.errors: list[Exception] = []
        self._threads = [threading.Thread(target=self._write, args=(lake, number)) for number in range(count)]

    def _write(self, lake: Lake, number: int) -> None:
        key = 1000 * (number + 1)
        try:
            with psycopg.connect(lake.dsn, autocommit=True) as session:
                while not self._stop.is_set():
                    key += 1
                    day = NOON[key % 3]
                    session.execute("INSERT INTO m SELECT %s, %s, g FROM generate_series(1, 3) g", [day, key])
                    session.execute("INSERT INTO m VALUES (%s, 7, 7)", [day])
                    session.execute("UPDATE m SET v = v + 1 WHERE id = %s AND v < 3", [key])
                    session.execute("UPDATE m SET ts = %s WHERE id = %s AND v = 3", [NOON[(key + 1) % 3], key - 5])
                    session.execute("DELETE FROM m WHERE id = %s", [key - 9])
                    session.execute("UPDATE m SET v = v + 1 WHERE id = %s", [(key + 36 * number) % 72])
        except Exception as error:
            self.errors.append(error)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert self.errors == []
