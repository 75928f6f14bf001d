"""Who runs the embedded server when we are root, and the folders that user must pass through."""

from __future__ import annotations

import os
import pwd
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thermocline import log as logs
from thermocline.errors import HomeNotUsable, Misconfigured

if TYPE_CHECKING:
    from pathlib import Path

log = logs.get(__name__)

_DEFAULT_NAMES = ("postgres", "nobody")

# POSIX access control lists as Linux keeps them in an extended attribute (acl(5), version 2).
_ACL_ATTRIBUTE = "system.posix_acl_access"
_ACL_VERSION = 2
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_GROUP = 0x08
_MASKED = (_USER, _GROUP_OBJ, _GROUP)
_NO_ID = 0xFFFFFFFF
_PASS = 0o1


@dataclass(frozen=True)
class ServiceUser:
    """Who runs the server. `None` for name: the caller, as nothing has to be given up."""

    name: str | None = None
    uid: int = 0
    gid: int = 0

    @classmethod
    def choose(cls, wanted: str | None) -> ServiceUser:
        """The user to run as: the caller, or as root the one wanted, else postgres, else nobody."""
        if os.geteuid() != 0:
            return cls(None, os.geteuid(), os.getegid())
        for name in (wanted,) if wanted else _DEFAULT_NAMES:
            try:
                found = pwd.getpwnam(name)
            except KeyError:
                continue
            if found.pw_uid == 0:
                break
            return cls(found.pw_name, found.pw_uid, found.pw_gid)
        raise Misconfigured(
            f"PostgreSQL refuses to run as root, and there is no user {wanted or 'postgres or nobody'} to run it as.",
            next_step="Set hot.run_as to an ordinary user, or run Thermocline as one.",
        )

    @property
    def popen(self) -> dict[str, Any]:
        """What subprocess needs to become this user."""
        if self.name is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def make_folder(self, path: Path) -> None:
        """Make a folder of the user's in one of ours, if it is not there; never touch one that is."""
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            return
        if self.name is not None:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def let_pass(self, path: Path) -> None:
        """Make sure that the user can reach `path`: the right to pass, for it alone, where it lacks it.

        Root's own folders are closed to others. Opening them to everybody would be rude, so
        each closed folder above `path` gets one access-control entry for this user.
        """
        if self.name is None:
            return
        for folder in [*reversed(path.resolve().parents), path.resolve()]:
            if folder.is_dir() and not self._may_pass(folder):
                self._grant_pass(folder)

    def _may_pass(self, folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & 0o100)
        entries = _read_acl(folder)
        if any(tag == _USER and uid == self.uid for tag, _, uid in entries):
            mask = next((perm for tag, perm, _ in entries if tag == _MASK), 0o7)
            return any(tag == _USER and uid == self.uid and perm & mask & _PASS for tag, perm, uid in entries)
        if status.st_gid == self.gid:
            return bool(status.st_mode & 0o010)
        return bool(status.st_mode & 0o001)

    def _grant_pass(self, folder: Path) -> None:
        mode = folder.stat().st_mode
        entries = _read_acl(folder) or [
            (_USER_OBJ, mode >> 6 & 7, _NO_ID),
            (_GROUP_OBJ, mode >> 3 & 7, _NO_ID),
            (_OTHER, mode & 7, _NO_ID),
        ]
        mask = next(
            (perm for tag, perm, _ in entries if tag == _MASK),
            next(perm for tag, perm, _ in entries if tag == _GROUP_OBJ),
        )
        # Raising the mask must not wake rights that it had put to sleep, so they are written down as they are.
        kept = [
            (tag, perm & mask if tag in _MASKED else perm, uid)
            for tag, perm, uid in entries
            if tag != _MASK and not (tag == _USER and uid == self.uid)
        ]
        granted = sorted([*kept, (_USER, _PASS, self.uid), (_MASK, mask | _PASS, _NO_ID)])
        packed = struct.pack("<I", _ACL_VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in granted)
        try:
            os.setxattr(folder, _ACL_ATTRIBUTE, packed)
        except (OSError, AttributeError) as error:
            raise HomeNotUsable(
                f"{folder} is closed to the user {self.name}, who must run PostgreSQL because we are"
                f" root, and the right to pass could not be given: {error}",
                next_step="Set THERMOCLINE_HOME to a folder outside root's home, as"
                " /var/lib/thermocline, or run as an ordinary user.",
            ) from error
        log.info("right to pass granted", folder=str(folder), user=self.name)


def _read_acl(folder: Path) -> list[tuple[int, int, int]]:
    try:
        packed = os.getxattr(folder, _ACL_ATTRIBUTE)
    except (OSError, AttributeError):
        return []
    return list(struct.iter_unpack("<HHI", packed[4:]))
