"""Making things a little before they are asked for, in a thread of their own: reading, decoding and writing overlap."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

T = TypeVar("T")


def ahead(items: Iterator[T], most: int = 2) -> Generator[T]:
    """The same items in the same order, up to so many of them made before they are asked for."""
    ended = object()
    thread = ThreadPoolExecutor(1, "ahead")
    try:
        coming = deque(thread.submit(next, items, ended) for _ in range(most))
        while (item := coming.popleft().result()) is not ended:
            coming.append(thread.submit(next, items, ended))
            yield cast("T", item)
    finally:
        thread.shutdown(cancel_futures=True)
        close = getattr(items, "close", None)
        if close:  # of a generator: what it holds, as a session, ends with it
            close()
