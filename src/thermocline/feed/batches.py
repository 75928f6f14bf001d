"""A batch: read and written, not yet committed. The same code in this process and in a task of Spark."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from thermocline.feed import writing
from thermocline.feed.reading import Ending, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from thermocline.feed.reading import Reading
    from thermocline.feed.writing import File, Target

T = TypeVar("T")
# Blocks that wait to be written: as many as are needed for the reader to go on while a file is being closed.
_AHEAD = 2


@dataclass(frozen=True)
class Batch:
    """What one reading left: files that nothing points at yet, and its ending."""

    files: Sequence[File]
    ending: Ending


def carry(reading: Reading, targets: Mapping[int, Target]) -> Batch:
    """Read one batch and write its files, in this process."""
    return gathered(carried(reading, targets))


def carried(reading: Reading, targets: Mapping[int, Target]) -> Iterator[File | Ending]:
    """Files as they are written, then the ending. Blocks are read while the ones before them are being written."""
    return writing.write(ahead(read(reading)), targets)


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, made by a thread of their own, a few of them before they are asked for."""
    ended = object()
    thread = ThreadPoolExecutor(1, "reading")
    try:
        coming = deque(thread.submit(next, items, ended) for _ in range(_AHEAD))
        while (item := coming.popleft().result()) is not ended:
            coming.append(thread.submit(next, items, ended))
            yield cast("T", item)
    finally:
        thread.shutdown(cancel_futures=True)


def gathered(results: Iterable[File | Ending]) -> Batch:
    """The files and the ending."""
    files: list[File] = []
    ending: Ending | None = None
    for one in results:
        if isinstance(one, Ending):
            ending = one
        else:
            files.append(one)
    if ending is None:
        raise RuntimeError("a batch came without its ending")
    return Batch(files, ending)
