"""A batch: read and written, not yet committed. The same code in this process and in a task of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from thermocline.ahead import ahead
from thermocline.feed import writing
from thermocline.feed.reading import Ending, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from thermocline.feed.reading import Reading
    from thermocline.feed.writing import File, Target


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
