"""A lake with Spark, for what is computed from both tiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.lakes import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from thermocline.stack import Stack


@pytest.fixture(scope="session")
def both(stack: Stack, spark: SparkSession, lake_dsn: str) -> Lake:
    """The database of the Spark session's catalogs."""
    return Lake(lake_dsn, stack)
