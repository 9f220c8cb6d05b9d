"""A configuration in words, as what will run. No secret is among them."""

from dataclasses import asdict
from typing import Final

from stomprelay.config.address import MEMORY
from stomprelay.config.config import Config
from stomprelay.config.endpoint import client, server
from stomprelay.relay.listener import Listener
from stomprelay.relay.upstream import Upstream
from stomprelay.session.handshake import spell_versions
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.limits import Limits

_WIDTH: Final = 16
_CLIENTS_OWN: Final = "the client's own"
_BY_ENDPOINT: Final = "as the endpoint says"


def summary(config: Config) -> str:
    """What would run, one line for each fact, without a line end at the end."""
    upstreams = list({each.upstream.name: each.upstream for each in config.listeners}.values())
    blocks = [*map(_listener, config.listeners), *map(_upstream, upstreams)]
    if any(each.broker.endpoint == MEMORY for each in upstreams):
        bounds = {name.replace("_", " "): str(value) for name, value in asdict(config.broker).items()}
        blocks.append(_block("embedded broker", bounds))
    if config.admin is not None:
        blocks.append(_block("admin", {"endpoint": config.admin}))
    return "\n".join(blocks)


def _block(title: str, facts: dict[str, str]) -> str:
    width = max(_WIDTH, *map(len, facts))
    return "\n".join([title, *(f"  {name:{width}} {value}" for name, value in facts.items())])


def _listener(listener: Listener) -> str:
    return _block(
        f"listener {listener.name}",
        {
            "endpoint": listener.endpoint,
            "tls": _server_tls(listener),
            "upstream": listener.upstream.name,
            "versions": _versions(listener.versions),
            "heart-beats": _beats(listener.heart_beat),
            "limits": _limits(listener.limits),
            "before CONNECT": f"{listener.before_connect} bytes, {listener.connect_timeout:g} s",
            "unacknowledged": f"{listener.unacknowledged} deliveries",
            "losses": listener.loss.value,
            "heads": "must be UTF-8" if listener.require_utf8 else "any octets",
            "linger": f"{listener.linger:g} s",
        },
    )


def _upstream(upstream: Upstream) -> str:
    own = upstream.credentials
    facts = {
        "address": upstream.broker.uri,
        "tls": _client_tls(upstream),
        "versions": _versions(upstream.versions) if upstream.versions else "the client's and those below it",
        "profile": upstream.profile.name,
        "virtual host": _CLIENTS_OWN if upstream.host is None else _text(upstream.host),
        "login": _CLIENTS_OWN,
        "heart-beats": _beats(upstream.heart_beat),
        "limits": _limits(upstream.limits),
        "time-outs": f"connect {upstream.connect_timeout:g} s, disconnect {upstream.disconnect_timeout:g} s",
        "keep-alive EOLs": f"every {upstream.keep_alive:g} s" if upstream.keep_alive else "never",
        "on ERROR": "the session ends" if upstream.close_on_error else "the broker decides",
    }
    if own is not None:
        escape = {None: "as the profile says", True: "yes", False: "no"}[upstream.connect_escape]
        secret = "without a passcode" if own.passcode is None else "with a passcode"
        facts["login"] = f"{_text(own.login)}, {secret}; escaped: {escape}"
    return _block(f"upstream {upstream.name}", facts)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _versions(versions: frozenset[bytes]) -> str:
    return spell_versions(versions).decode().replace(",", ", ")


def _beats(terms: Terms) -> str:
    sends = f"can send every {terms.can_send} ms" if terms.can_send else "sends none"
    wants = f"wants one every {terms.wants} ms" if terms.wants else "wants none"
    return f"{sends} (after {terms.idle:g} of it), {wants} (dead after {terms.tolerance:g} times it)"


def _limits(limits: Limits) -> str:
    return f"{limits.headers} headers, {limits.header_line} bytes a header line, {limits.body} bytes a body"


def _server_tls(listener: Listener) -> str:
    tls = listener.tls
    if tls is None:
        return _BY_ENDPOINT if server(listener.endpoint).own_tls else "no"
    text = f"certificate {tls.certificate}, key {tls.key}"
    if tls.client_ca is None:
        return text
    return (
        f"{text}; clients {'must' if tls.require_client_certificate else 'may'} show one by {tls.client_ca}"
    )


def _client_tls(upstream: Upstream) -> str:
    tls, broker = upstream.tls, upstream.broker
    if not broker.tls:
        return _BY_ENDPOINT if broker.endpoint != MEMORY and client(broker.endpoint).own_tls else "no"
    text = f"verified as {tls.name or broker.host} by {tls.ca or 'the CAs of this system'}"
    return text if tls.certificate is None else f"{text}; ours is {tls.certificate}, key {tls.key}"
