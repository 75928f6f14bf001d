"""Names of tables as people give them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.hot import names

NAMES = st.text(min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("readings", ("public", "readings")),
        ("plant.readings", ("plant", "readings")),
        ("Plant.Readings", ("Plant", "Readings")),
        ('"a.b"', ("public", "a.b")),
        ('plant."a.b"', ("plant", "a.b")),
        ('"My ""own"" plant".readings', ('My "own" plant', "readings")),
        ('un"finished', ("public", 'un"finished')),
    ],
)
def test_a_name_means_a_schema_and_a_table(told: str, meant: tuple[str, str]) -> None:
    assert names.split(told) == meant


@given(NAMES, NAMES)
def test_whatever_is_quoted_as_in_sql_comes_back(schema: str, name: str) -> None:
    assert names.split(names.joined(schema, name)) == (schema, name)
