"""A batch: read and written, not yet committed. Spark does it block by block, this module in one go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from thermocline.feed import writing
from thermocline.feed.reading import Ending, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from thermocline.feed.reading import Reading
    from thermocline.feed.writing import File, Target


@dataclass(frozen=True)
class Batch:
    """What one reading left: files that nothing points at yet, and its ending."""

    files: Sequence[File]
    ending: Ending


def carry(reading: Reading, targets: Mapping[int, Target]) -> Batch:
    """Read one batch and write its files, in this process."""
    return gathered(writing.write(read(reading), targets))


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
