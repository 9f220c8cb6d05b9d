"""TLS: loads our certificates, and verifies the peer's certificate.

OpenSSL verifies the chain; service_identity verifies the name. A certificate without any name is refused, too. The
reason of a refusal is kept with the connection, because OpenSSL reports no reason.

Twisted compares the protocols that a client offers by ALPN (RFC 7301) with the protocols of the connection's factory,
and refuses every client without a common protocol. `_set_up_alpn` replaces this comparison.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from OpenSSL import SSL
from OpenSSL.crypto import X509
from service_identity import CertificateError, VerificationError
from service_identity.hazmat import DNS_ID, IPAddress_ID, ServiceID, verify_service_identity
from service_identity.pyopenssl import extract_patterns
from twisted.application.service import Service
from twisted.internet import _sslverify
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator
from twisted.internet.ssl import CertificateOptions, TLSVersion
from twisted.internet.task import LoopingCall
from twisted.protocols.tls import TLSMemoryBIOProtocol
from zope.interface import implementer

from stomprelay.relay.model.listener import ServerTLS
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service.log import logger
from stomprelay.service.network.layer import SteppedConnection
from stomprelay.session.reasons import rejected

_log: Final = logger()
_CODES = SSL.X509VerificationCodes
_UNKNOWN: Final = "its authority is not known here"
_MEANINGS: Final = {
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


Stamps = tuple[tuple[str | int, ...], ...]
"""The state of files: each file's path and, if the file exists, its inode, size and time of the last change."""


def _in_folder(path: str) -> list[str]:
    return sorted(map(str, Path(path).glob("*.pem"))) if os.path.isdir(path) else []


def _stamp(file: str) -> tuple[int, ...]:
    try:
        found = os.stat(file)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


class Unusable(Exception):
    """A configured TLS file cannot be used. The text is the reason; `key` is the setting that names the file."""

    def __init__(self, key: str, path: str, reason: str) -> None:
        super().__init__(f"{key}: {path}: {reason}")


@implementer(IOpenSSLServerConnectionCreator, IOpenSSLClientConnectionCreator)
@dataclass(eq=False, repr=False)
class TLSConnections:
    """Makes and verifies the TLS connections of a listener or a broker. `load` returns a context with the files in
    `paths`, or raises `Unusable`. `name`: the broker's host, for its certificate and for SNI. `demanded`: OpenSSL's
    `VERIFY_*`. `offered`: the protocols that the relay offers to a broker by ALPN.
    """

    _load: Callable[[], SSL.Context]
    paths: tuple[str, ...]
    _demanded: int
    _name: str | None = None
    _offered: Sequence[bytes] = ()
    _sni: bytes | None = None
    _ids: list[ServiceID] = field(default_factory=list)

    def __post_init__(self) -> None:
        name = self._name
        if name is not None:
            if isIPAddress(name) or isIPv6Address(name):
                self._ids.append(IPAddress_ID(name))
            else:
                self._sni = name.encode("ascii" if name.isascii() else "idna")
                self._ids.append(DNS_ID(self._sni.decode("ascii")))
        self.renew()

    def renew(self) -> None:
        """Load the files again for new connections. Raises `Unusable`; then the old files stay in use."""
        self.loaded = self.stamps()
        context = self._load()
        context.set_verify(self._demanded, self._verify)
        self._context = context

    def stamps(self) -> Stamps:
        """Return the stamps of the files, which change when a file is changed, replaced or removed."""
        files = [file for path in self.paths for file in (path, *_in_folder(path))]
        return tuple((file, *_stamp(file)) for file in files)

    @property
    def expires(self) -> float | None:
        """Return when our own certificate ends, in seconds since 1970; None without a certificate."""
        own = SSL.Connection(self._context, None).get_certificate(as_cryptography=True)
        return None if own is None else own.not_valid_after_utc.timestamp()

    def serverConnectionForTLS(self, protocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Return the TLS connection to a client; Twisted calls this."""
        return SteppedConnection(self._context, None)

    def clientConnectionForTLS(self, protocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Return the TLS connection to a broker; Twisted calls this."""
        connection = SteppedConnection(self._context, None)
        if self._sni is not None:
            connection.set_tlsext_host_name(self._sni)
        if self._offered:
            connection.set_alpn_protos(list(self._offered))
        return connection

    def _verify(
        self, connection: SSL.Connection, certificate: X509, code: int, depth: int, trusted: int
    ) -> bool:
        problem = None
        if not trusted:
            problem = _MEANINGS.get(code, f"OpenSSL's code is {code}")
            problem += (
                f" (certificate of {certificate.get_subject().commonName or 'no name'!s}, level {depth})"
            )
        elif depth == 0 and self._ids:
            problem = self._misnamed(certificate)
        if problem is not None and isinstance(connection, SteppedConnection):
            connection.problem = problem
        return problem is None

    def _misnamed(self, certificate: X509) -> str | None:
        try:
            patterns = extract_patterns(certificate)
            verify_service_identity(patterns, self._ids, [])
        except VerificationError:
            texts = [getattr(each, "pattern", "?") for each in patterns]
            names = ", ".join(
                each.decode("ascii", "replace") if isinstance(each, bytes) else str(each) for each in texts
            )
            return f"it is for {names}, not for {self._name}"
        except CertificateError as error:
            return f"it cannot be for {self._name}: {error}"
        return None


def certificate_problem(layer: TLSMemoryBIOProtocol) -> str | None:
    """Return why the peer's certificate was not accepted, or None. Call it when the connection is lost."""
    connection: Any = layer.getHandle()
    if isinstance(connection, SteppedConnection) and connection.problem is not None:
        return rejected(connection.problem)
    return None


def for_listener(tls: ServerTLS) -> TLSConnections:
    """Load the TLS files of a listener and return the source of its connections. Raises `Unusable`."""

    def load() -> SSL.Context:
        context = _context()
        _load_own(context, tls.certificate, tls.key)
        if tls.client_ca is not None:
            _load_trust(context, "client_ca", tls.client_ca)
            context.load_client_ca(os.fsencode(tls.client_ca))
        return context

    demanded = SSL.VERIFY_NONE
    if tls.client_ca is not None:
        demanded = SSL.VERIFY_PEER
        if tls.require_client_certificate:
            demanded |= SSL.VERIFY_FAIL_IF_NO_PEER_CERT
    return TLSConnections(load, tuple(filter(None, (tls.certificate, tls.key, tls.client_ca))), demanded)


def for_broker(tls: ClientTLS, host: str, offered: Sequence[bytes] = ()) -> TLSConnections:
    """Return the source of TLS connections to a broker at this host, with these ALPN protocols. Raises `Unusable`."""

    def load() -> SSL.Context:
        context = _context()
        if tls.certificate is not None:
            _load_own(context, tls.certificate, tls.key or tls.certificate)
        if tls.ca is None:
            context.set_default_verify_paths()
        else:
            _load_trust(context, "ca", tls.ca)
        return context

    paths = tuple(filter(None, (tls.certificate, tls.key, tls.ca)))
    return TLSConnections(load, paths, SSL.VERIFY_PEER, tls.name or host, offered)


def _set_up_alpn(context: SSL.Context, acceptableProtocols: Sequence[bytes]) -> None:
    """Choose the first of these protocols that a client offers. If it offers none, serve it without ALPN."""

    def select(connection: SSL.Connection, offers: Sequence[bytes]) -> Any:
        spoken = _sslverify.protosFromProtocol(connection.get_app_data(), acceptableProtocols)
        return next((each for each in spoken if each in offers), SSL.NO_OVERLAPPING_PROTOCOLS)

    context.set_alpn_select_callback(select)


# For all contexts that Twisted makes, also for `ssl:` and `tls:` endpoints. Some are made at a handshake.
_sslverify.setupForALPN = _set_up_alpn


def _context() -> SSL.Context:
    context = CertificateOptions(raiseMinimumTo=TLSVersion.TLSv1_2).getContext()
    # OpenSSL would ask for the passphrase on the terminal.
    context.set_passwd_cb(lambda *_: b"")
    return context


def _load_own(context: SSL.Context, certificate: str, key: str) -> None:
    for setting, path, load in (
        ("certificate", certificate, context.use_certificate_chain_file),
        ("key", key, context.use_privatekey_file),
    ):
        _require_readable(setting, path)
        try:
            load(path)
        except SSL.Error as error:
            why = _why(error, "not a usable PEM file")
            if "mismatch" in why:
                why = f"it does not belong to the certificate {certificate}"
            raise Unusable(setting, path, why) from None


def _load_trust(context: SSL.Context, key: str, path: str) -> None:
    """Load trusted certificates from a file, or from a folder's .pem files. Raises `Unusable`, which names `key`."""
    files = _in_folder(path) if os.path.isdir(path) else [path]
    if not files:
        raise Unusable(key, path, "no .pem file in it")
    for file in files:
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
    reasons = [str(entry[-1]) for entry in error.args[0] if entry[-1]] if error.args else []
    return f"{fallback} ({', '.join(reasons)})" if reasons else fallback


# Certificates that change while they are used

EVERY: Final = 2.0
"""Seconds between two looks. Changed files are loaded if two looks find the same change, because certificate and key
are replaced one after the other.
"""


class CertificateWatch(Service):
    """Watches the files of TLS connections while the service runs. If a file of a table in the configuration has
    changed, all files of this table are loaded again. If files cannot be used, the old files stay in use. Each change
    is logged once.
    """

    def __init__(self, reactor: Any) -> None:
        self._watched: Mapping[str, Sequence[TLSConnections]] = {}
        self._seen: dict[str, tuple[Stamps, ...]] = {}
        loop = self._loop = LoopingCall(self.look)
        loop.clock = reactor

    def watch(self, connections: Mapping[str, Sequence[TLSConnections]]) -> None:
        """Watch only the files of these connections from now on. The keys are tables of the configuration."""
        self._watched = {name: each for name, each in connections.items() if any(one.paths for one in each)}
        self._seen.clear()
        self._run()

    def startService(self) -> None:
        """Begin to watch, if there is a file."""
        super().startService()
        self._run()

    def stopService(self) -> None:
        """Stop watching."""
        super().stopService()
        self._run()

    def _run(self) -> None:
        wanted = bool(self.running and self._watched)
        if wanted and not self._loop.running:
            _ = self._loop.start(EVERY, now=False)
        elif not wanted and self._loop.running:
            self._loop.stop()

    def look(self) -> None:
        """Look at all files once."""
        for name, connections in self._watched.items():
            stamps = tuple(each.stamps() for each in connections)
            if stamps == tuple(each.loaded for each in connections):
                self._seen.pop(name, None)
            elif self._seen.get(name) == stamps:
                del self._seen[name]
                _renew(name, connections)
            else:
                self._seen[name] = stamps


def _renew(name: str, connections: Sequence[TLSConnections]) -> None:
    problem: Unusable | None = None
    for each in connections:
        try:
            each.renew()
        except Unusable as error:
            problem = error
    if problem is None:
        _log.info("{name}: the files changed; new connections have them", name=name)
    else:
        _log.warn("{name}.{problem}; what was loaded before stays in use", name=name, problem=str(problem))
