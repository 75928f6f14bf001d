"""Making things ahead: the same items in the same order, errors where they belong, and no thread left behind."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.ahead import ahead

if TYPE_CHECKING:
    from collections.abc import Iterator


def threads() -> int:
    return sum(thread.name.startswith("ahead") for thread in threading.enumerate())


@given(st.lists(st.one_of(st.none(), st.integers())), st.integers(1, 5))
def test_the_same_items_in_the_same_order(items: list[int | None], most: int) -> None:
    assert list(ahead(iter(items), most)) == items
    assert threads() == 0


def test_never_more_are_made_than_were_allowed() -> None:
    made = 0

    def count() -> Iterator[int]:
        nonlocal made
        for number in range(20):
            made += 1
            yield number

    for number in ahead(count(), 3):
        time.sleep(0.005)
        assert made <= number + 4
    assert made == 20


def test_an_error_comes_after_what_was_made_before_it() -> None:
    def break_off() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("no more")

    seen: list[int] = []
    with pytest.raises(ValueError, match="no more"):
        seen.extend(ahead(break_off()))
    items = ahead(break_off())
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match="no more"):
        next(items)
    assert threads() == 0


def test_whoever_stops_early_leaves_no_thread_and_an_end_to_the_maker() -> None:
    ended = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    maker = endless()
    items = ahead(maker)
    assert next(items) == 1
    items.close()
    assert threads() == 0
    assert ended.is_set()
