"""An S3 server on loopback with one bucket, and what is in it."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from harness.crash_servers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = "lake"
KEYS = {"s3.access-key-id": "testing", "s3.secret-access-key": "testing", "s3.region": "us-east-1"}


def properties(address: str) -> dict[str, str]:
    """Of a catalog whose files are there."""
    return KEYS | {"s3.endpoint": address, "s3.path-style-access": "true", "client.region": "us-east-1"}


@contextmanager
def s3_server() -> Iterator[str]:
    """Started; its address."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 180
        while True:
            try:
                client(address).create_bucket(Bucket=BUCKET)
                break
            except (BotoCoreError, ClientError):
                assert time.monotonic() < deadline
                time.sleep(0.2)
        yield address
    finally:
        server.kill()
        server.wait()


def client(address: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(retries={"max_attempts": 1}),
    )


def objects(address: str, prefix: str) -> list[str]:
    """What the bucket has below a prefix; a thousand at most."""
    listing = client(address).list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [entry["Key"] for entry in listing.get("Contents", [])]
