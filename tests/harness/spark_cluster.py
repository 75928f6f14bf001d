"""A Spark standalone cluster on loopback for tests, with the Java that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers import cluster
from harness.homes import CACHE
from thermocline.config import JavaSettings
from thermocline.lake import java

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path


def standalone_cluster(folder: Path, workers: int = 1) -> AbstractContextManager[str]:
    """Started, its address, ended."""
    return cluster.standalone_cluster(folder, java.find(JavaSettings(), CACHE).home, workers)
