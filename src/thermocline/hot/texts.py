"""Rows of the lake as PostgreSQL takes them in bulk: CSV, whole columns at a time."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from thermocline.hot.rows import UNREPRESENTABLE
from thermocline.hot.types import HEX

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPTIONS = csv.WriteOptions(include_header=False)


def as_csv(rows: pa.Table, columns: Sequence[str]) -> bytes:
    """These columns of rows, in this order; what a column could not hold is what `_unrepresentable` says."""
    odd = _unrepresentable(rows)
    arrays = [_written(rows.column(name).combine_chunks(), odd.get(name, {})) for name in columns]
    out = io.BytesIO()
    csv.write_csv(pa.table(arrays, names=[str(place) for place in range(len(arrays))]), out, _OPTIONS)
    return out.getvalue()


def _written(values: pa.Array, odd: dict[int, str]) -> pa.Array:
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        values = _hex(values.cast(pa.large_binary()))
    if not odd:
        return values
    places = np.zeros(len(values), bool)
    places[list(odd)] = True
    return pc.replace_with_mask(values.cast(pa.string()), pa.array(places), pa.array([odd[at] for at in sorted(odd)]))


def _unrepresentable(rows: pa.Table) -> dict[str, dict[int, str]]:
    """By column and row; only few rows have any."""
    found: dict[str, dict[int, str]] = {}
    told = rows.column(UNREPRESENTABLE).combine_chunks()
    for at in np.flatnonzero(told.is_valid().to_numpy(zero_copy_only=False)):
        for name, text in json.loads(told[int(at)].as_py()).items():
            found.setdefault(name, {})[int(at)] = text
    return found


def _hex(values: pa.Array) -> pa.Array:
    """Bytes in the form \\x0a1b."""
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    digits = pa.Array.from_buffers(
        pa.large_string(),
        len(values),
        [None, pa.py_buffer((offsets - offsets[0]) * 2), pa.py_buffer(HEX[data].reshape(-1).copy())],
    )
    start, between = (pa.scalar(text, pa.large_string()) for text in ("\\x", ""))
    written = pc.binary_join_element_wise(start, digits, between)
    return pc.if_else(values.is_valid(), written, pa.scalar(None, written.type))
