"""Certificates for the TLS tests, made on the spot."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)
_SIGNS = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
"""What the key of an authority may do: sign certificates and lists of those that are revoked."""


@dataclass(frozen=True)
class Credentials:
    """A certificate with its key, as files: `certificate` holds the whole chain, leaf first."""

    certificate: Path
    key: Path
    leaf: x509.Certificate
    private: ec.EllipticCurvePrivateKey

    @property
    def lines(self) -> str:
        """The lines of a table of the configuration that name both files."""
        return f'certificate = "{self.certificate}"\nkey = "{self.key}"\n'

    def keystore(self, path: Path, password: str) -> Path:
        """Write certificate and key as PKCS 12, for Java."""
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"broker", self.private, self.leaf, None, encryption)
        )
        return path


class Authority:
    """A certificate authority that writes what it issues into `directory`."""

    def __init__(self, directory: Path, name: str, parent: "Authority | None" = None) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        now = datetime.datetime.now(datetime.UTC)
        issuer = parent or self
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(issuer._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + 30 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer._key.public_key()), critical=False
            )
            .sign(issuer._key, hashes.SHA256())
        )
        self._chain: list[x509.Certificate] = [self.certificate, *parent._chain] if parent else []
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def issue(
        self, name: str, dns: Sequence[str] = ("localhost",), *, client: bool = False, expired: bool = False
    ) -> Credentials:
        """Issue a certificate for the names `dns`, and for 127.0.0.1 where localhost is one of them."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        names: list[x509.GeneralName] = [x509.DNSName(one) for one in dns]
        if "localhost" in dns:
            names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        leaf = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * _DAY)
            .not_valid_after(now - _DAY if expired else now + 30 * _DAY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        certificate = self._directory / f"{name}.pem"
        certificate.write_bytes(b"".join(one.public_bytes(Encoding.PEM) for one in [leaf, *self._chain]))
        private = self._directory / f"{name}.key"
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        private.chmod(0o600)
        return Credentials(certificate, private, leaf, key)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
