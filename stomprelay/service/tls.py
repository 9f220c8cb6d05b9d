"""Certificates: what ours are loaded from, and how the peer's are verified.

OpenSSL verifies the chain; the name is verified by service_identity, and a certificate that names nothing at all is
refused too. What was wrong is kept with the connection, for OpenSSL itself only says that something was.
"""

import os
from pathlib import Path
from typing import Any, Final

from OpenSSL import SSL
from OpenSSL.crypto import X509
from service_identity import CertificateError, VerificationError
from service_identity.hazmat import DNS_ID, IPAddress_ID, ServiceID, verify_service_identity
from service_identity.pyopenssl import extract_patterns
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator
from twisted.internet.ssl import CertificateOptions, TLSVersion
from twisted.protocols.tls import TLSMemoryBIOProtocol
from zope.interface import implementer

from stomprelay.relay.model.listener import ServerTLS
from stomprelay.relay.model.upstream import ClientTLS

_CODES = SSL.X509VerificationCodes
_UNKNOWN: Final = "its authority is not known here"
_FOUND: Final = {
    _CODES.ERR_CERT_HAS_EXPIRED: "it has expired",
    _CODES.ERR_CERT_NOT_YET_VALID: "it is not valid yet",
    _CODES.ERR_CERT_REVOKED: "it was revoked",
    _CODES.ERR_DEPTH_ZERO_SELF_SIGNED_CERT: "it is signed by itself, by no authority that is known here",
    _CODES.ERR_SELF_SIGNED_CERT_IN_CHAIN: _UNKNOWN,
    _CODES.ERR_UNABLE_TO_GET_ISSUER_CERT: _UNKNOWN,
    _CODES.ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY: _UNKNOWN,
    _CODES.ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE: _UNKNOWN,
    _CODES.ERR_INVALID_PURPOSE: "it is not made for this purpose",
}


class Unusable(Exception):
    """A file of ours that cannot be used, and why; `key` is the setting that names it."""

    def __init__(self, key: str, path: str, reason: str) -> None:
        super().__init__(f"{key}: {path}: {reason}")


class Checked(SSL.Connection):
    """A TLS connection that remembers what was wrong with the peer's certificate."""

    found: str | None = None


@implementer(IOpenSSLServerConnectionCreator, IOpenSSLClientConnectionCreator)
class Verification:
    """Makes the TLS connections of one listener or one broker.

    `name`: what the peer's certificate must be for and what is asked for by SNI; None where the peer is a client,
    who has no name.
    """

    def __init__(self, context: SSL.Context, demanded: int, name: str | None = None) -> None:
        self._context = context
        self._name = name
        self._sni: bytes | None = None
        self._ids: list[ServiceID] = []
        if name is not None:
            if isIPAddress(name) or isIPv6Address(name):
                self._ids.append(IPAddress_ID(name))
            else:
                self._sni = name.encode("ascii" if name.isascii() else "idna")
                self._ids.append(DNS_ID(self._sni.decode("ascii")))
        context.set_verify(demanded, self._verify)

    def serverConnectionForTLS(self, protocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """A TLS connection to a client."""
        return self._connection()

    def clientConnectionForTLS(self, protocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """A TLS connection to a broker."""
        connection = self._connection()
        if self._sni is not None:
            connection.set_tlsext_host_name(self._sni)
        return connection

    def _connection(self) -> SSL.Connection:
        return Checked(self._context, None)

    def _verify(
        self, connection: SSL.Connection, certificate: X509, code: int, depth: int, trusted: int
    ) -> bool:
        found = None
        if not trusted:
            found = _FOUND.get(code, f"OpenSSL's code is {code}")
            found += f" (certificate of {_subject(certificate)}, level {depth})"
        elif depth == 0 and self._ids:
            found = self._misnamed(certificate)
        if found is not None and isinstance(connection, Checked):
            connection.found = found
        return found is None

    def _misnamed(self, certificate: X509) -> str | None:
        try:
            patterns = extract_patterns(certificate)
            verify_service_identity(patterns, self._ids, [])
        except VerificationError:
            names = ", ".join(_shown(getattr(pattern, "pattern", "?")) for pattern in patterns)
            return f"it is for {names}, not for {self._name}"
        except CertificateError as error:
            return f"it cannot be for {self._name}: {error}"
        return None


def _shown(pattern: object) -> str:
    return pattern.decode("ascii", "replace") if isinstance(pattern, bytes) else str(pattern)


def _subject(certificate: X509) -> str:
    subject = certificate.get_subject()
    return f"{subject.commonName or 'no name'!s}"


def trouble(layer: TLSMemoryBIOProtocol) -> str | None:
    """What was wrong with the peer's certificate, while the connection is being lost; None when nothing was."""
    connection: Any = layer.getHandle()
    if isinstance(connection, Checked) and connection.found is not None:
        return f"TLS: certificate verify failed: {connection.found}"
    return None


def server(tls: ServerTLS) -> Verification:
    """The TLS of a listener. Raises `Unusable`."""
    context = _context()
    _load_own(context, tls.certificate, tls.key)
    demanded = SSL.VERIFY_NONE
    if tls.client_ca is not None:
        _load_trust(context, "client_ca", tls.client_ca)
        context.load_client_ca(os.fsencode(tls.client_ca))
        demanded = SSL.VERIFY_PEER
        if tls.require_client_certificate:
            demanded |= SSL.VERIFY_FAIL_IF_NO_PEER_CERT
    return Verification(context, demanded)


def client(tls: ClientTLS, host: str) -> Verification:
    """The TLS toward the brokers of an upstream. Raises `Unusable`."""
    context = _context()
    if tls.certificate is not None:
        _load_own(context, tls.certificate, tls.key or tls.certificate)
    if tls.ca is None:
        context.set_default_verify_paths()
    else:
        _load_trust(context, "ca", tls.ca)
    return Verification(context, SSL.VERIFY_PEER, tls.name or host)


def _context() -> SSL.Context:
    context = CertificateOptions(raiseMinimumTo=TLSVersion.TLSv1_2).getContext()
    # OpenSSL would ask for the passphrase on the terminal.
    context.set_passwd_cb(lambda *_: b"")
    return context


def _load_own(context: SSL.Context, certificate: str, key: str) -> None:
    _require_readable("certificate", certificate)
    try:
        context.use_certificate_chain_file(certificate)
    except SSL.Error as error:
        raise Unusable("certificate", certificate, _why(error, "not a usable PEM file")) from None
    _require_readable("key", key)
    try:
        context.use_privatekey_file(key)
    except SSL.Error as error:
        why = _why(error, "not a usable PEM file")
        if "mismatch" in why:
            why = f"it does not belong to the certificate {certificate}"
        raise Unusable("key", key, why) from None


def _load_trust(context: SSL.Context, key: str, path: str) -> None:
    """From a file, or from every .pem file of a directory."""
    files = sorted(Path(path).glob("*.pem")) if os.path.isdir(path) else [path]
    if not files:
        raise Unusable(key, path, "no .pem file in it")
    for file in map(str, files):
        _require_readable(key, file)
        try:
            context.load_verify_locations(file)
        except SSL.Error as error:
            raise Unusable(key, file, _why(error, "no certificate in it")) from None


def _require_readable(key: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise Unusable(key, path, error.strerror or str(error)) from None


def _why(error: SSL.Error, fallback: str) -> str:
    said = [str(entry[-1]) for entry in error.args[0] if entry[-1]] if error.args else []
    return f"{fallback} ({', '.join(said)})" if said else fallback
