"""Types of the lake: what each becomes, in both forms, and what is told in words or refused."""

from __future__ import annotations

import struct
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thermocline.errors import ExitCode
from thermocline.hot import types
from thermocline.hot.types import UnsupportedType, convert, has_place, lake_type, type_named, type_sent_by
from thermocline.hot.wire import MalformedStream, Slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thermocline.hot.wire import Converted

UTC_TIME = pa.timestamp("us", "UTC")


def typmod(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


def column(values: Sequence[bytes | str | None], oid: int, mod: int = -1) -> Converted:
    """Bytes come in binary form, strings as text; other bytes lie between them, as in a stream."""
    data, starts, lengths, tags = b"", [], [], b""
    for value in values:
        tags += b"n" if value is None else b"t" if isinstance(value, str) else b"b"
        content = value.encode() if isinstance(value, str) else value or b""
        data += b"\xff\xff"
        starts.append(len(data))
        lengths.append(len(content))
        data += content
    return convert(
        np.frombuffer(data, np.uint8),
        np.frombuffer(tags, np.uint8),
        np.array(starts, np.int64),
        np.array(lengths, np.int64),
        oid,
        mod,
    )


def numeric(text: str) -> bytes:
    """By long division, and not as the decoder does it."""
    if text in ("NaN", "Infinity", "-Infinity"):
        return struct.pack(">hhHh", 0, 0, {"N": 0xC000, "I": 0xD000, "-": 0xF000}[text[0]], 0)
    dscale = len(text.partition(".")[2])
    unscaled = abs(int(text.replace(".", ""))) * 10 ** (-dscale % 4)
    groups: list[int] = []
    while unscaled:
        unscaled, group = divmod(unscaled, 10_000)
        groups.insert(0, group)
    weight = len(groups) - 1 - (dscale + 3) // 4
    while groups and not groups[-1]:
        groups.pop()
    sign = 0x4000 if text[0] == "-" else 0
    return struct.pack(f">hhHh{len(groups)}h", len(groups), weight if groups else 0, sign, dscale, *groups)


@pytest.mark.parametrize(
    ("oid", "mod", "kind"),
    [
        (types.INT2, -1, pa.int32()),
        (types.INT4, -1, pa.int32()),
        (types.INT8, -1, pa.int64()),
        (types.OID, -1, pa.int64()),
        (types.FLOAT4, -1, pa.float32()),
        (types.FLOAT8, -1, pa.float64()),
        (types.BOOL, -1, pa.bool_()),
        (types.TEXT, -1, pa.string()),
        (types.VARCHAR, 14, pa.string()),
        (types.BPCHAR, 14, pa.string()),
        (types.CHAR, -1, pa.string()),
        (types.NAME, -1, pa.string()),
        (types.JSON, -1, pa.string()),
        (types.JSONB, -1, pa.string()),
        (types.XML, -1, pa.string()),
        (types.UUID, -1, pa.string()),
        (types.BYTEA, -1, pa.binary()),
        (types.DATE, -1, pa.date32()),
        (types.TIMESTAMP, 3, pa.timestamp("us")),
        (types.TIMESTAMPTZ, -1, UTC_TIME),
        (types.NUMERIC, typmod(10, 2), pa.decimal128(10, 2)),
        (types.NUMERIC, typmod(38, 38), pa.decimal128(38, 38)),
        (types.NUMERIC, typmod(38, 0), pa.decimal128(38, 0)),
        (types.NUMERIC, -1, pa.string()),
        (types.NUMERIC, typmod(39, 2), pa.string()),
        (types.NUMERIC, typmod(1000, 1000), pa.string()),
        (types.NUMERIC, typmod(2, -3), pa.string()),
        (types.NUMERIC, typmod(3, 5), pa.string()),
    ],
)
def test_m12_each_type_has_its_place(oid: int, mod: int, kind: pa.DataType) -> None:
    assert lake_type(oid, mod) == kind
    assert has_place(oid)
    nothing = column([None, None], oid, mod)
    assert nothing.values.type == kind
    assert nothing.values.null_count == 2


@pytest.mark.parametrize("oid", [1007, 1186, 869, 600, 1083, 16_500])
def test_m12_others_have_none_of_their_own_and_are_text(oid: int) -> None:
    assert lake_type(oid, -1) == pa.string()
    assert not has_place(oid)
    assert column(["as text", None, ""], oid).values.to_pylist() == ["as text", None, ""]
    with pytest.raises(UnsupportedType, match=str(oid)) as wrong:
        column(["as text", b"binary"], oid)
    assert wrong.value.exit_code is ExitCode.REFUSED


def test_the_form_of_other_types_is_told_by_their_send_function() -> None:
    assert type_sent_by("int4send") == type_named("int4") == types.INT4
    assert type_sent_by("timestamptz_send") == types.TIMESTAMPTZ
    assert type_sent_by("enum_send") == types.TEXT
    assert type_sent_by(None) == types.TEXT
    assert type_sent_by("array_send") is None
    assert type_named("interval") is None


@pytest.mark.parametrize(
    ("oid", "values", "expected"),
    [
        (types.INT2, [b"\x80\x00", None, "-5"], [-32768, None, -5]),
        (types.INT4, ["7", b"\xff\xff\xff\xff"], [7, -1]),
        (types.INT8, [b"\x7f" + b"\xff" * 7, None], [2**63 - 1, None]),
        (types.OID, [b"\xff\xff\xff\xff", "4294967295"], [2**32 - 1] * 2),
        (types.FLOAT4, ["1.5", struct.pack(">f", -0.5), "-Infinity"], [1.5, -0.5, float("-inf")]),
        (types.FLOAT8, [struct.pack(">d", 0.1), "0.1", None], [0.1, 0.1, None]),
        (types.BOOL, ["t", b"\0", None, b"\1", "f"], [True, False, None, True, False]),
        (types.TEXT, ["", None, b"", b"b\xc3\xa4", "ä"], ["", None, "", "bä", "ä"]),
        (types.CHAR, [b"x", b"\0", b"\xe4", "\\344", ""], ["x", "", "\\344", "\\344", ""]),
        (types.JSONB, ["{}", b"\1[1]", None], ["{}", "[1]", None]),
        (types.BYTEA, [b"\0\xff", "\\x00fF", b"", "\\x", None], [b"\0\xff", b"\0\xff", b"", b"", None]),
        (types.UUID, [bytes(range(16)), None], ["00010203-0405-0607-0809-0a0b0c0d0e0f", None]),
    ],
)
def test_m12_forms_may_change_from_row_to_row(oid: int, values: list[Any], expected: list[Any]) -> None:
    converted = column(values, oid)
    assert converted.values.to_pylist() == expected
    assert not converted.unrepresentable
    converted.values.validate(full=True)
    for value, alone in zip(values, expected, strict=True):
        assert column([value], oid).values.to_pylist() == [alone]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-01", 0),
        ("2000-01-01", 10_957),
        ("0001-01-01", -719_162),
        ("9999-12-31", 2_932_896),
    ],
)
def test_m12_dates_of_the_calendar(text: str, days: int) -> None:
    both = column([text, struct.pack(">i", days - 10_957), "2000-01-01"], types.DATE)
    assert both.values.cast(pa.int32()).to_pylist() == [days, days, 10_957]
    assert not both.unrepresentable


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1970-01-01 00:00:00+00", 0),
        ("1969-12-31 23:59:59.999999+00", -1),
        ("1970-01-01 05:30:00.5+05:30", 500_000),
        ("1970-01-01 00:53:28+00:53:28", 0),
        ("1969-12-31 19:03:58-04:56:02", 0),
        ("0001-12-31 23:00:00-01 BC", -719_162 * 86_400_000_000),
        ("9999-12-31 23:59:59.999999+00", 2_932_897 * 86_400_000_000 - 1),
    ],
)
def test_m12_times_of_the_calendar_and_any_zone(text: str, microseconds: int) -> None:
    both = column([text, struct.pack(">q", microseconds - types.EPOCH_MICROSECONDS)], types.TIMESTAMPTZ)
    assert both.values.cast(pa.int64()).to_pylist() == [microseconds] * 2
    assert not both.unrepresentable


@pytest.mark.parametrize(
    ("oid", "mod", "layout", "raw", "text"),
    [
        (types.DATE, -1, ">i", 2**31 - 1, "infinity"),
        (types.DATE, -1, ">i", -(2**31), "-infinity"),
        (types.DATE, -1, ">i", -719_163 - 10_957, "0001-12-31 BC"),
        (types.DATE, -1, ">i", -719_469 - 10_957, "0001-02-29 BC"),
        (types.DATE, -1, ">i", -2_440_588 - 10_957, "4714-11-24 BC"),
        (types.DATE, -1, ">i", 2_932_897 - 10_957, "10000-01-01"),
        (types.DATE, -1, ">i", 2_145_042_905 - 10_957, "5874897-12-31"),
        (
            types.TIMESTAMP,
            -1,
            ">q",
            -719_162 * 86_400_000_000 - 1 - types.EPOCH_MICROSECONDS,
            "0001-12-31 23:59:59.999999 BC",
        ),
        (types.TIMESTAMPTZ, -1, ">q", 2_932_897 * 86_400_000_000 - types.EPOCH_MICROSECONDS, "10000-01-01 00:00:00+00"),
        (types.TIMESTAMP, -1, ">q", 2**63 - 1, "infinity"),
        (types.TIMESTAMP, -1, ">q", -(2**63), "-infinity"),
        (types.TIMESTAMP, -1, ">q", 9_223_371_331_199_999_999, "294276-12-31 23:59:59.999999"),
        (types.TIMESTAMPTZ, -1, ">q", 9_223_371_331_199_000_000, "294276-12-31 23:59:59+00"),
        (types.TIMESTAMPTZ, -1, ">q", 2**63 - types.EPOCH_MICROSECONDS, "294247-01-10 04:00:54.775808+00"),
    ],
)
def test_m12_times_that_the_lake_has_not(oid: int, mod: int, layout: str, raw: int, text: str) -> None:
    binary = struct.pack(layout, raw)
    fine = struct.pack(layout, 0)
    converted = column([fine, binary, None, text, fine], oid, mod)
    assert converted.unrepresentable == {1: text, 3: text}
    assert converted.values.is_valid().to_pylist() == [True, False, False, False, True]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1000.00", "-99999999", "0.001", "1.005"])
def test_m12_numbers_that_a_decimal_has_not(text: str) -> None:
    converted = column([numeric("1.10"), numeric(text), None, text, "2"], types.NUMERIC, typmod(5, 2))
    assert converted.unrepresentable == {1: text, 3: text}
    assert converted.values.to_pylist() == [Decimal("1.10"), None, None, None, Decimal("2.00")]


@st.composite
def numbers(draw: st.DrawFn) -> tuple[int, int, list[str]]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    most = 10**precision - 1
    unscaled = st.one_of(
        st.integers(-most, most),
        st.integers(0, precision).map(lambda n: min(10**n, most)),
        st.integers(0, precision).map(lambda n: 1 - 10**n),
    )
    return precision, scale, draw(st.lists(unscaled.map(lambda n: with_point(n, scale)), max_size=20))


def with_point(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).zfill(scale + 1)
    whole = len(digits) - scale
    return f"{'-' if unscaled < 0 else ''}{digits[:whole]}{'.' if scale else ''}{digits[whole:]}"


@settings(max_examples=200)
@given(numbers())
def test_m12_every_decimal_is_exact(given_numbers: tuple[int, int, list[str]]) -> None:
    precision, scale, texts = given_numbers
    for values in (texts, [numeric(text) for text in texts]):
        converted = column(values, types.NUMERIC, typmod(precision, scale))
        assert [f"{value:.{scale}f}" for value in converted.values.to_pylist()] == texts
        assert not converted.unrepresentable
        converted.values.validate(full=True)
    assert column([numeric(text) for text in texts], types.NUMERIC).values.to_pylist() == texts


NUMERALS = st.decimals(allow_nan=False, allow_infinity=False).filter(lambda n: -200 < n.adjusted() < 200)


@settings(max_examples=200)
@given(st.lists(st.one_of(NUMERALS, st.sampled_from([Decimal("NaN"), Decimal("-Infinity")])), max_size=20))
def test_m12_a_numeric_without_bounds_is_the_text_of_postgresql(values: list[Decimal]) -> None:
    context = Context(prec=1000)
    texts = [f"{context.abs(n) if n == 0 else n:f}" for n in values]
    assert column([numeric(text) for text in texts], types.NUMERIC).values.to_pylist() == texts


@pytest.mark.parametrize(
    ("oid", "mod", "value"),
    [
        (types.INT4, -1, b"\0\0\0"),
        (types.INT4, -1, "four"),
        (types.INT4, -1, "2147483648"),
        (types.FLOAT8, -1, b""),
        (types.FLOAT8, -1, "1,5"),
        (types.BOOL, -1, "x"),
        (types.BOOL, -1, "true"),
        (types.TEXT, -1, b"\xe4"),
        (types.JSONB, -1, b""),
        (types.JSONB, -1, b"\2{}"),
        (types.BYTEA, -1, "plain"),
        (types.BYTEA, -1, "\\x0"),
        (types.BYTEA, -1, "\\x0g"),
        (types.BYTEA, -1, ""),
        (types.UUID, -1, b"\0" * 15),
        (types.DATE, -1, "29.02.2024"),
        (types.DATE, -1, "2023-02-29"),
        (types.DATE, -1, "10001-02-29"),
        (types.TIMESTAMP, -1, "2024-01-01 25:00:00"),
        (types.TIMESTAMPTZ, -1, "2024-01-01 00:00:00"),
        (types.NUMERIC, typmod(5, 2), "1,0"),
        (types.NUMERIC, typmod(5, 2), b"\0" * 7),
        (types.NUMERIC, typmod(5, 2), struct.pack(">hhHh", 1, 0, 0, 0)),
        (types.NUMERIC, typmod(5, 2), struct.pack(">hhHh", -1, 0, 0, 0)),
        (types.NUMERIC, typmod(5, 2), struct.pack(">hhHhh", 1, 0, 0, 0, 10_000)),
        (types.NUMERIC, -1, struct.pack(">hhHhh", 1, 0, 0x8000, 0, 1)),
        (types.NUMERIC, -1, struct.pack(">hhHhh", 1, 0, 0, 0, -1)),
    ],
)
def test_m12_what_is_not_of_its_type_is_malformed(oid: int, mod: int, value: bytes | str) -> None:
    with pytest.raises(MalformedStream) as wrong:
        column([value], oid, mod)
    assert wrong.value.code == "feed.malformed"


def test_neighbours_that_share_their_bytes_are_both_there() -> None:
    data = np.frombuffer(b"..one.two..", np.uint8)
    slices = Slices(data, np.array([2, 2, 5, 6, 6, 6]), np.array([3, 3, 0, 3, 3, 3]))
    assert slices.strings().to_pylist() == ["one", "one", "", "two", "two", "two"]
