"""The text of `stomprelay check`: what would run with a configuration, in words. The text has no secret."""

from collections.abc import Iterator
from dataclasses import asdict
from math import inf
from typing import Final

from stomprelay.auth.settings import AuthSettings, BrokerLogin
from stomprelay.config.address import MEMORY, client, server
from stomprelay.config.admin import UNENCRYPTED, unencrypted
from stomprelay.config.config import Config
from stomprelay.config.upstream import PARTS
from stomprelay.config.values import BODIES, NEVER, shown
from stomprelay.journal.settings import JournalSettings, WhenFull
from stomprelay.relay.model.group import Broker, Checks, Group, Policy, Reconnect
from stomprelay.relay.model.listener import Listener, Match, ServerTLS, Web
from stomprelay.relay.model.rates import RateLimits, Scope, spell_number
from stomprelay.relay.model.rules import AccessRules
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.handshake import spell_versions
from stomprelay.session.leg import Terms
from stomprelay.wire.frame import Limits

_WIDTH: Final = 16
_CLIENTS_OWN: Final = "the client's own"
_BY_ENDPOINT: Final = "as the endpoint says"
_PATTERNS: Final = {Match.EXACT: "is", Match.PREFIX: "begins with", Match.GLOB: "is like"}
_CHOICES: Final = {
    Policy.TOGETHER: "together: the one that has the others; else the first that can, in the order of the list",
    Policy.FAILOVER: "the first that can, in the order of the list",
    Policy.ROUND_ROBIN: "round-robin: each in its turn, by weight",
    Policy.RANDOM: "random: any, by weight",
    Policy.LEAST_SESSIONS: "least-sessions: the one with the fewest sessions for its weight",
}
_ANY_ORDER: Final = "the first that can, in a random order for each session"

Fact = tuple[str, str]


def summary(config: Config) -> str:
    """Return the configuration as text, one line for each fact, without a line end after the last line."""
    auths = {each.name: each for each in config.auths}
    blocks = [_listener(each, auths.get(each.auth or "")) for each in config.listeners]
    blocks += map(_upstream, config.upstreams)
    if any(broker.endpoint == MEMORY for each in config.upstreams for broker in each.brokers):
        bounds = [(name.replace("_", " "), str(value)) for name, value in asdict(config.broker).items()]
        blocks.append(_block("embedded broker", bounds))
    memory = "half of what there is" if config.memory is None else f"{config.memory} bytes"
    together = [("memory", f"{memory}, of all clients")]
    if config.clients is not None:
        together.insert(0, ("clients", f"{config.clients} at most"))
    blocks.append(_block("all listeners", together))
    hosts = ", ".join(["its own", *map(str, config.admin_hosts)])
    if config.admin is not None:
        blocks.append(_block("admin", [*_admin(config, config.admin), ("hosts", hosts)]))
    if config.metrics is not None:
        blocks.append(_block("metrics", [("endpoint", config.metrics), ("hosts", hosts)]))
    if config.journal.directory is not None:
        blocks.append(_block("journal", [("directory", config.journal.directory), *_journal(config.journal)]))
    stop = f"sessions have {config.stop_timeout:g} s to deliver what their clients sent"
    each = config.workers
    relay = [
        ("workers", "none: one process" if each == 1 else f"{each}, limits of clients divided among them"),
        ("at a stop", stop if config.stop_timeout else "sessions end at once"),
        *(
            []
            if config.handover is None
            else [("handover", f"another relay may take over at {config.handover}")]
        ),
        ("log", f"from {config.log_level} on"),
        ("fast path", "where it can be" if config.fast_path else "never"),
    ]
    return "\n".join([*blocks, _block("relay", relay)])


def _admin(config: Config, endpoint: str) -> Iterator[Fact]:
    yield "endpoint", endpoint
    yield "tls", _server_tls(endpoint, config.admin_tls)
    yield "token", "none" if config.admin_token is None else "needed, but for probes"
    if config.admin_token is not None and unencrypted(endpoint, config.admin_tls):
        yield "warning", UNENCRYPTED
    if config.admin_console:
        yield "console", "at /console, a way in at the listeners"


def _block(title: str, facts: list[Fact]) -> str:
    width = max(_WIDTH, *(len(name) for name, _ in facts))
    return "\n".join([title, *(f"  {name:{width}} {value}" for name, value in facts)])


def _listener(listener: Listener, auth: AuthSettings | None) -> str:
    own = f"; {len(auth.logins)} users have logins of their own" if auth is not None and auth.logins else ""
    return _block(
        f"listener {listener.name}",
        [
            ("endpoint", listener.endpoint),
            ("tls", _server_tls(listener.endpoint, listener.tls)),
            *(_web(listener.web) if listener.web else ()),
            ("upstream", listener.upstream.name),
            *(
                (
                    "route" if each.move is None else f"move {each.move.name}",
                    f"to {each.upstream.name} if the destination {_PATTERNS[each.match]} {shown(each.pattern)}",
                )
                for each in listener.routes
            ),
            ("who may come in", "whom the brokers let in" if auth is None else _auth(auth)),
            *([] if auth is None else [("brokers are told", _TOLD[auth.broker] + own)]),
            ("rules", _rules(listener.rules)),
            ("versions", _versions(listener.versions)),
            ("heart-beats", _beats(listener.heart_beat)),
            ("limits", _limits(listener.limits)),
            ("clients", _clients(listener)),
            *(("rates", each) for each in _rates(listener.rates)),
            ("before CONNECT", f"{listener.before_connect} bytes, {listener.connect_timeout:g} s"),
            ("unacknowledged", f"{listener.unacknowledged} deliveries"),
            ("at once", f"{listener.transactions} transactions, {listener.subscriptions} subscriptions"),
            ("kept", f"{listener.budget} bytes of a client"),
            ("losses", listener.loss.value),
            ("heads", "must be UTF-8" if listener.require_utf8 else "any octets"),
            ("trace", "each SEND gets one, MESSAGEs lose it" if listener.trace else "no"),
            ("linger", f"{listener.linger:g} s"),
        ],
    )


def _web(web: Web) -> Iterator[Fact]:
    origins = ", ".join(web.origins)
    pings = f"a ping after {web.ping_interval:g} s" if web.ping_interval else "no pings"
    compressed = ", compressed where clients offer it" if web.compression else ""
    yield "websocket", f"at {web.path}, messages of {web.message} bytes at most{compressed}, {pings}"
    yield "browsers", f"from pages of {origins}" if origins else "none: there are no origins"


def _auth(auth: AuthSettings) -> str:
    ways = ["whom a certificate names"] if auth.certificates else []
    if auth.tokens is not None:
        issuer = "" if auth.tokens.issuer is None else f", from {auth.tokens.issuer}"
        algorithms = ", ".join(auth.tokens.algorithms)
        ways.append(f"who has a token ({algorithms}) for {' or '.join(auth.tokens.audience)}{issuer}")
    if auth.users is not None:
        ways.append(f"who has the passcode of one of {len(auth.users.entries)} users")
    if auth.service is not None:
        ways.append(f"whom {auth.service.url} lets in")
    return f"{auth.name}: {'; '.join(ways)}"


_TOLD: Final = {
    BrokerLogin.LOGIN: "the login of their upstream",
    BrokerLogin.USER: "the user's name, without a passcode",
    BrokerLogin.CLIENT: "what the client says, where their upstream has no login",
}


def _clients(listener: Listener) -> str:
    most = "as many as all together may be" if listener.clients is None else f"{listener.clients} at most"
    for each, whose in ((listener.clients_per_address, "address"), (listener.clients_per_user, "user")):
        most += "" if each is None else f", {each} of one {whose}"
    return most


def _rates(limits: RateLimits) -> Iterator[str]:
    words = {Scope.LISTENER: "all clients together", Scope.ADDRESS: "each address", Scope.USER: "each user"}
    for scope, whose in words.items():
        rates = limits.of(scope)
        each = [("connections", rates.connects), ("frames", rates.frames), ("bytes", rates.bytes)]
        some = [f"{spell_number(rate)} {what}" for what, rate in each if rate is not None]
        if some:
            more = "who sends more is refused" if rates.refuse else "who sends more is read from no faster"
            sends = rates.frames is not None or rates.bytes is not None
            yield f"{whose} {', '.join(some)} a second, {rates.burst:g} s at once" + (
                f"; {more}" if sends else ""
            )


ADVICE: Final = (
    "rules that deny are advice: no `profile` says which product it is, and it may know more names"
)


def _rules(rules: AccessRules | None) -> str:
    if rules is None:
        return "none: clients may do what their brokers let them"
    word = "allowed" if rules.allow else "denied"
    advice = f"; {ADVICE}" if rules.advisory else ""
    return f"{len(rules.rules) or 'none'}, and what none matches is {word}{advice}"


def _upstream(upstream: Upstream) -> str:
    return _block(
        f"upstream {upstream.name}",
        [
            *(
                _moving(upstream)
                if upstream.movable
                else [
                    ("address", upstream.brokers[0].uri),
                    ("tls", _client_tls(upstream, upstream.brokers[0])),
                ]
            ),
            (
                "versions",
                _versions(upstream.versions) if upstream.versions else "the client's and those below it",
            ),
            ("profile", upstream.profile.name),
            ("virtual host", _CLIENTS_OWN if upstream.host is None else _text(upstream.host)),
            ("login", _login(upstream)),
            ("heart-beats", _beats(upstream.heart_beat)),
            ("limits", _limits(upstream.limits)),
            (
                "time-outs",
                f"connect {upstream.connect_timeout:g} s, disconnect {upstream.disconnect_timeout:g} s",
            ),
            ("keep-alive EOLs", f"every {upstream.keep_alive:g} s" if upstream.keep_alive else "never"),
            ("client's address", _introduction(upstream)),
            ("on ERROR", "the session ends" if upstream.close_on_error else "the broker decides"),
            *[("clients", f"written for {each}") for each in [upstream.map.clients] if each],
            *[("names", ", ".join(map(str, each))) for each in [upstream.map.names] if each],
        ],
    )


def _introduction(upstream: Upstream) -> str:
    name = upstream.client_address_header
    ways = ["by the PROXY protocol"] if upstream.proxy_protocol else []
    if name is not None:
        ways.append(f"in the header {_text(name)} of CONNECT")
    return " and ".join(ways) or "not told"


def _moving(upstream: Upstream) -> Iterator[Fact]:
    several = len(upstream.groups) > 1
    if several:
        queues = "" if upstream.fan_out_queues else "; one to a queue goes to the first group alone"
        most = len(upstream.groups)
        yield "fan-out", f"a SEND goes to all groups, and {upstream.quorum} of {most} must have it{queues}"
    for group in upstream.groups:
        yield "group", f"{group.name}: {choice(group)}" if several else choice(group)
        for broker in group.brokers:
            weight = f"weight {broker.weight}; " if broker.weight != 1 else ""
            yield "broker", f"{broker}; {weight}tls: {_client_tls(upstream, broker)}"
        if group.reconnect is not None:
            yield "reconnecting", _reconnecting(group.reconnect)
    if upstream.connected:
        yield "connected", "brokers of a list pass messages on to each other"
    for group in upstream.parts:
        yield "warning", PARTS.format(group=group.name, choice=choice(group))
    yield "confirm", "every SEND, by receipts of the relay's own" if upstream.confirm else "no"
    yield "time to confirm", f"{upstream.confirm_timeout:g} s" if upstream.confirm_timeout else "any time"
    yield "kept to re-send", f"{upstream.resend_buffer} bytes of a session in a group"
    yield "after an outage", f"sessions come back {_rate(upstream.reconnect_rate, 'without a limit')}"
    yield (
        "rebalance",
        f"sessions move to a broker that is there again: {_rate(upstream.rebalance_rate, 'none')}",
    )
    yield "moving", f"waits {upstream.drain_timeout:g} s at most for a quiet moment"
    yield "health", _health(upstream.checks)


def choice(group: Group) -> str:
    """Return in words how a group chooses the broker for a session."""
    if len(group.brokers) == 1:
        return "one broker"
    random = group.policy is Policy.FAILOVER and group.reconnect is not None and group.reconnect.randomize
    text = _ANY_ORDER if random else _CHOICES[group.policy]
    if group.reconnect is not None and group.reconnect.priority_backup:
        text += f"; back to {group.brokers[0]} when it is there again"
    return text


def _reconnecting(options: Reconnect) -> str:
    grow = f", each {options.multiplier:g} times the one before up to" if options.exponential else ", at most"
    parts = [
        f"pauses of {_ms(options.initial_delay)}{grow} {_ms(options.longest_delay)}, "
        f"{options.jitter:.0%} more or less",
        f"passes: {_passes(options.startup_attempts)} at the start, {_passes(options.attempts)} after a loss",
        "no time-out" if options.timeout == inf else f"given up after {_ms(options.timeout)}",
        "no warnings" if options.warn_after == NEVER else f"a warning every {options.warn_after} passes",
    ]
    return "; ".join(parts)


def _passes(attempts: int) -> str:
    return "without end" if attempts < 0 else str(max(attempts, 1))


def _ms(time: float) -> str:
    return f"{time:g} s" if time >= 1 else f"{time * 1000:g} ms"


def _rate(rate: float, none: str) -> str:
    return f"{rate:g} a second" if rate else none


def _health(checks: Checks) -> str:
    text = (
        f"failures in a row until a broker is left out: {checks.failures}; for {_ms(checks.pause)} at first, "
        f"{_ms(checks.longest_pause)} at most"
    )
    if not checks.probe:
        return f"{text}; not probed"
    how = "" if checks.destination is None else f" and a message to {shown(checks.destination)}"
    return f"{text}; probed every {_ms(checks.probe)} by CONNECT{how}"


def _login(upstream: Upstream) -> str:
    own = upstream.credentials
    if own is None:
        return _CLIENTS_OWN
    escape = {None: "as the profile says", True: "yes", False: "no"}[upstream.connect_escape]
    secret = "without a passcode" if own.passcode is None else "with a passcode"
    return f"{_text(own.login)}, {secret}; escaped: {escape}"


def _journal(journal: JournalSettings) -> Iterator[Fact]:
    yield "relay", journal.relay or "the name of this machine"
    yield "segments", f"end with {journal.segment_size} bytes, or after {journal.segment_age:g} s"
    full = (
        "records are left out, and counted"
        if journal.when_full is WhenFull.DROP
        else "the relay reads from no session"
    )
    yield "queue", f"{journal.queue} bytes; when it is full {full}"
    synced = f"every {journal.sync_interval:g} s" if journal.sync_interval else "when a segment ends"
    yield "written", f"every {journal.flush_interval:g} s, to the disk itself {synced}"
    for rule in journal.rules:
        yield "bodies", f"{spell_bodies(rule.bodies)} where the destination is like {shown(rule.destination)}"
    yield "bodies", f"{spell_bodies(journal.bodies)}{' elsewhere' if journal.rules else ''}"
    yield (
        "left out",
        ", ".join(["the client's passcode", *(name for name in journal.redact if name != "passcode")]),
    )
    age = None if journal.retain_age is None else f"{journal.retain_age:g} s"
    size = None if journal.retain_size is None else f"{journal.retain_size} bytes in all"
    yield "retained", ", ".join(filter(None, [age, size])) or "for ever"


def spell_bodies(size: int) -> str:
    """Return in words how much of a body is recorded. `size`: the number of bytes in the configuration."""
    return next((word for word, number in BODIES.items() if number == size), f"the first {size} bytes")


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


def _server_tls(endpoint: str, tls: ServerTLS | None) -> str:
    if tls is None:
        return _BY_ENDPOINT if server(endpoint).own_tls else "no"
    text = f"certificate {tls.certificate}, key {tls.key}"
    if tls.client_ca is None:
        return text
    return (
        f"{text}; clients {'must' if tls.require_client_certificate else 'may'} show one by {tls.client_ca}"
    )


def _client_tls(upstream: Upstream, broker: Broker) -> str:
    tls = upstream.tls
    if not broker.tls:
        return _BY_ENDPOINT if broker.endpoint != MEMORY and client(broker.endpoint).own_tls else "no"
    text = f"verified as {tls.name or broker.host} by {tls.ca or 'the CAs of this system'}"
    return text if tls.certificate is None else f"{text}; ours is {tls.certificate}, key {tls.key}"
