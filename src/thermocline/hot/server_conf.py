"""How the embedded server is set up: written anew at every start, outside of the server's own folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HOST = "127.0.0.1"
HBA = f"""\
# Written by Thermocline: loopback only, password always.
host all         all {HOST}/32 scram-sha-256
host replication all {HOST}/32 scram-sha-256
"""


def server_conf(data: Path, log_folder: Path, hba: Path, shared_buffers: str) -> str:
    """The server's configuration. What postgresql.conf in the data folder says comes after it, and wins."""
    settings = {
        "hba_file": str(hba),
        "listen_addresses": HOST,
        "unix_socket_directories": "",
        "password_encryption": "scram-sha-256",
        "max_connections": "100",
        "shared_buffers": shared_buffers,
        "wal_level": "logical",
        "max_wal_senders": "20",
        "max_replication_slots": "20",
        "max_wal_size": "2GB",
        "max_locks_per_transaction": "1024",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "lc_messages": "C",
        "logging_collector": "on",
        "log_directory": str(log_folder),
        "log_filename": "postgres-%a.log",
        "log_truncate_on_rotation": "on",
        "log_rotation_age": "1d",
        "log_rotation_size": "0",
        "log_line_prefix": "%m [%p] %q%u@%d %a ",
    }
    lines = [f"{name} = {_quoted(value)}" for name, value in settings.items()]
    return "\n".join(
        [
            "# Written by Thermocline at every start.",
            *lines,
            f"include {_quoted(str(data / 'postgresql.conf'))}",
            "",
        ]
    )


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
