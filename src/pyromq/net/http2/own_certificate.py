"""A certificate of our own: made for the first connection, kept in a folder, signed by nobody.

SDKs for Java, Go, C# and C++ use TLS unless they are told otherwise, and trust any certificate; so Apache's
proxy makes one, another at each start. Ours stays, so that a client may be told to trust this one.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pyromq.config.choices import TlsServerMode
from pyromq.config.settings import NetSettings
from pyromq.errors import ConfigError
from pyromq.net.tls import server_context

#: Certificate and key, one behind the other: one file is there as a whole, or is not.
FILE_NAME: Final = "grpcCertificate.pem"
_VALID_DAYS: Final = 20 * 365
_NOT_INSTALLED: Final = (
    "a certificate is made with the package cryptography, which is not installed: "
    "pip install 'pyromq[grpc]', or set tlsServerCertPath, or tlsServerMode=disabled"
)


def with_certificate(settings: NetSettings, folder: Path) -> NetSettings:
    """Return the settings with a certificate of our own where they name none and want TLS; see below."""
    if not _is_wanted(settings):
        return settings
    return _naming(settings, own_certificate(folder))


def check_certificate(settings: NetSettings, folder: Path) -> None:
    """Raise ConfigError if the certificate that is there does not load, or none is and none can be made."""
    if not _is_wanted(settings):
        return
    path = folder / FILE_NAME
    if path.exists():
        server_context(_naming(settings, path))
    elif find_spec("cryptography") is None:
        raise ConfigError(_NOT_INSTALLED)


def own_certificate(folder: Path) -> Path:
    """Return the PEM file with certificate and key; make it if it is not there, readable by us alone.

    Raises ConfigError when it cannot be made.
    """
    path = folder / FILE_NAME
    if path.exists():
        return path
    made = folder / f"{FILE_NAME}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_make())
            file.flush()
            os.fsync(descriptor)
        made.rename(path)
    except OSError as error:
        raise ConfigError(
            f"no certificate can be made in {folder} ({error.strerror or error}); set tlsServerCertPath and "
            "tlsServerKeyPath, or tlsServerMode=disabled"
        ) from error
    return path


def _is_wanted(settings: NetSettings) -> bool:
    return settings.tls_server_mode != TlsServerMode.DISABLED and not settings.tls_server_cert_path


def _naming(settings: NetSettings, path: Path) -> NetSettings:
    return replace(settings, tls_server_cert_path=str(path), tls_server_key_path=str(path))


def _make() -> bytes:
    # Only now: it is needed once in the life of a data folder, and is megabytes.
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError as error:
        raise ConfigError(_NOT_INSTALLED) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks differ.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
