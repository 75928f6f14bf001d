"""Bytes as they come: the messages of a block, and many values in one buffer that are read all at once."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thermocline.errors import ThermoclineError

if TYPE_CHECKING:
    from collections.abc import Iterator

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Arrow's strings count their bytes in 32 bits, so the columns of a larger block might not fit.
MOST_BYTES = 2**31 - 1


class MalformedStream(ThermoclineError):
    """The change stream holds something that PostgreSQL's pgoutput does not send."""

    code = "feed.malformed"
    next_step_by_default = (
        "Start the feed again: it reads the same changes once more. If it stops at the same place, report it."
    )


def numbers_at(data: Bytes, positions: Longs, kind: str) -> npt.NDArray[Any]:
    """The big-endian numbers of a numpy kind ("i4", "f8") at these positions, in native order.

    Positions must lie inside the data; a number may begin at any byte.
    """
    dtype = np.dtype(kind)
    if not len(positions):
        return np.empty(0, dtype)
    # A view that begins a number at every byte. Fetching in native order and swapping afterwards takes half
    # the time of a big-endian view.
    everywhere: npt.NDArray[Any] = np.ndarray((len(data) - dtype.itemsize + 1,), dtype, buffer=data, strides=(1,))
    found = everywhere[positions]
    return found.byteswap(inplace=True) if dtype.itemsize > 1 else found


@dataclass(frozen=True)
class Slices:
    """Values that lie in one buffer, in ascending order; neighbours may be the same bytes."""

    data: Bytes
    starts: Longs
    lengths: Longs

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, which: Mask | Longs) -> Slices:
        """Some of them."""
        return Slices(self.data, self.starts[which], self.lengths[which])

    def without_first(self, count: int) -> Slices:
        """Each without its first bytes; refuses a value that is shorter."""
        if (self.lengths < count).any():
            raise MalformedStream(f"A value has less than {count} bytes.")
        return Slices(self.data, self.starts + count, self.lengths - count)

    def numbers(self, kind: str) -> npt.NDArray[Any]:
        """Each as one big-endian number; refuses a value of another width."""
        width = np.dtype(kind).itemsize
        if (self.lengths != width).any():
            raise MalformedStream(f"A value should have {width} bytes and has not.")
        return numbers_at(self.data, self.starts, kind)

    def binary(self) -> pa.Array:
        """Each as bytes, copied out of the buffer."""
        count = len(self)
        if not count:
            return pa.array([], pa.binary())
        # An unchanged value of an UPDATE stands in the old tuple only, and both rows point there.
        fresh = np.ones(count, np.bool_)
        fresh[1:] = (self.starts[1:] != self.starts[:-1]) | (self.lengths[1:] != self.lengths[:-1])
        starts, lengths = (self.starts, self.lengths) if fresh.all() else (self.starts[fresh], self.lengths[fresh])
        # Values and the gaps between them, in turns, are a binary array over the buffer as it is; Arrow then
        # copies every second element. An index per byte would be eight times as large as the data.
        offsets = np.empty(2 * len(starts), np.int32)
        offsets[0::2] = starts
        offsets[1::2] = starts + lengths
        if (offsets[1:] < offsets[:-1]).any():
            raise AssertionError("slices out of order")
        turns = pa.Array.from_buffers(
            pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        )
        return turns.take(pa.array(2 * (np.cumsum(fresh) - 1)))

    def strings(self) -> pa.Array:
        """Each as a string; refuses what is not UTF-8."""
        try:
            return self.binary().cast(pa.string())
        except pa.ArrowInvalid as wrong:
            raise MalformedStream(
                "A text is not valid UTF-8.", next_step="The reader's client_encoding must be UTF8."
            ) from wrong


@dataclass(frozen=True)
class Converted:
    """A column in its lake type, and the text of those values that the type cannot hold (NULL there)."""

    values: pa.Array
    unrepresentable: dict[int, str]


def from_numpy(values: npt.NDArray[Any], kind: pa.DataType, absent: Mask | None = None) -> pa.Array:
    """An Arrow array over a numpy array of the same layout, with NULL where `absent` says so."""
    values = np.ascontiguousarray(values)
    validity = None
    if absent is not None and absent.any():
        validity = pa.py_buffer(np.packbits(~absent, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values)])


@dataclass(frozen=True)
class Messages:
    """A block, opened: the bytes, and where in them each message lies."""

    data: Bytes
    starts: Longs
    ends: Longs
    kinds: Bytes

    def __len__(self) -> int:
        return len(self.starts)

    @staticmethod
    def of(block: pa.Array, known_kinds: bytes) -> Messages:
        """Refuses empty messages and kinds that are not known."""
        if block.type not in (pa.binary(), pa.large_binary()):
            raise TypeError(f"a block is a binary array, not {block.type}")
        if not len(block):
            none = np.empty(0, np.int64)
            return Messages(none.astype(np.uint8), none, none, none.astype(np.uint8))
        width = np.dtype(np.int32 if block.type == pa.binary() else np.int64)
        _, offsets_buffer, data_buffer = block.buffers()
        offsets = np.frombuffer(offsets_buffer, width, len(block) + 1, block.offset * width.itemsize)
        first, last = int(offsets[0]), int(offsets[-1])
        if last - first > MOST_BYTES:
            raise ValueError("a block of more than 2 GiB; ask for smaller ones")
        offsets = offsets.astype(np.int64) - first
        starts, ends = offsets[:-1], offsets[1:]
        if block.null_count or (starts >= ends).any():
            raise MalformedStream("A message is empty.")
        data = np.frombuffer(data_buffer, np.uint8)[first:last]
        kinds = data[starts]
        messages = Messages(data, starts, ends, kinds)
        unknown = set(np.flatnonzero(np.bincount(kinds)).tolist()) - set(known_kinds)
        if unknown:
            raise MalformedStream(
                f"A message of unknown kind {bytes([min(unknown)])!r}.",
                next_step="Read the slot with proto_version 1 and without streaming or two-phase decoding.",
            )
        return messages

    def of_kind(self, kind: int) -> list[int]:
        """Which messages are of a kind."""
        found: list[int] = np.flatnonzero(self.kinds == kind).tolist()
        return found

    def body(self, at: int) -> Body:
        """One message after its kind, for those kinds that are rare enough to be read one by one."""
        return Body(self.data[self.starts[at] + 1 : self.ends[at]].tobytes())

    def fields(self, which: Longs, length: int, *fields: tuple[int, str]) -> Iterator[npt.NDArray[Any]]:
        """Numbers at fixed places of messages that have one length."""
        starts = self.starts[which]
        if (self.ends[which] - starts != length).any():
            raise MalformedStream(f"A message of kind {chr(self.kinds[which[0]])} has a wrong length.")
        return (numbers_at(self.data, starts + at, kind) for at, kind in fields)


class Body:
    """The rest of one message, read field by field; refuses to read past the end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def numbers(self, layout: str) -> tuple[Any, ...]:
        """Big-endian numbers in the notation of struct."""
        return struct.unpack(">" + layout, self.take(struct.calcsize(">" + layout)))

    def text(self) -> str:
        """A string up to its zero byte."""
        end = self._content.find(b"\0", self._at)
        if end < 0:
            raise MalformedStream("A message ends inside a name.")
        try:
            return self.take(end + 1 - self._at)[:-1].decode()
        except UnicodeDecodeError as wrong:
            raise MalformedStream("A name is not valid UTF-8.") from wrong

    def take(self, count: int) -> bytes:
        """So many bytes."""
        if not 0 <= count <= len(self._content) - self._at:
            raise MalformedStream("A message ends before it should.")
        self._at += count
        return self._content[self._at - count : self._at]

    def end(self) -> None:
        """Nothing may be left."""
        if self._at != len(self._content):
            raise MalformedStream("A message is longer than it should be.")
