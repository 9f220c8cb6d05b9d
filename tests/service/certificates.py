"""Certificates for the TLS tests, beside those that an authority issues."""

import datetime
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from stomprelay.relay.model.listener import ServerTLS
from tests.e2e.certificates import Credentials

_DAY = datetime.timedelta(days=1)


class Files(NamedTuple):
    """A certificate and its key."""

    certificate: Path
    key: Path


def self_signed(directory: Path, name: str) -> Files:
    """A certificate for localhost that is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 30 * _DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = Files(directory / f"{name}.pem", directory / f"{name}.key")
    files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files.key.chmod(0o600)
    return files


def serving(own: Files | Credentials, **settings: Any) -> ServerTLS:
    """A listener's TLS with this certificate."""
    return ServerTLS(str(own.certificate), str(own.key), **settings)
