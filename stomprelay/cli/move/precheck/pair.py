"""The two upstreams of a move: which products their brokers are, and for which product the clients were written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from stomprelay.auth.settings import AuthSettings
from stomprelay.cli.move.precheck import logins
from stomprelay.cli.move.precheck.connects import Connects
from stomprelay.cli.move.precheck.report import Report
from stomprelay.config import Config, ConfigError
from stomprelay.config.table import nearest
from stomprelay.relay.model.features import PRODUCTS
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.model.usage import Judge


@dataclass(frozen=True)
class Pair:
    """A move from `old` to `new`, whose brokers are of the product `product`. `clients`: the product for which the
    clients were written. `decided`: the configuration says so. `new` has the map that is judged. `listeners`: those of
    the relay.
    """

    old: Upstream
    new: Upstream
    clients: str
    product: str
    decided: bool
    listeners: Sequence[Listener]

    @cached_property
    def judge(self) -> Judge:
        """A judge of clients' frames."""
        return Judge(self.new.map, self.product)

    @cached_property
    def concerns(self) -> Callable[[str, bytes | None], bool]:
        """A function that returns whether frames of a listener's clients to a destination go to OLD; without a
        destination: whether any frames may.
        """
        known = {each.name: each for each in self.listeners}

        @lru_cache(4096)
        def concerns(name: str, destination: bytes | None) -> bool:
            listener = known.get(name)
            if listener is None:
                return False
            if destination is not None:
                return listener.routed(destination).name == self.old.name
            return any(each.name == self.old.name for each in listener.upstreams())

        return concerns

    @cached_property
    def report(self) -> Report:
        """What was found. It is open if the configuration does not say for which product clients are."""
        host = self.new.host is not None or bool(self.new.map.hosts)
        connects = Connects(self.clients, self.product, host=host)
        found = Report(self.old.name, self.new.name, (self.clients, self.product), connects)
        if not self.decided:
            line = f'[upstream.{self.new.name}.map] clients = "{self.clients}"'
            found.open.append(f"the configuration lacks {line}; without it all frames pass as they are")
        if self.product not in PRODUCTS:
            found.open.append(f"{self.new.name} is of no product that is known: all frames pass as they are")
        return found


def find(
    config: Config,
    upstreams: Mapping[str, Upstream],
    names: tuple[str, str],
    said: tuple[str | None, str | None],
    within: float | None,
) -> Pair:
    """Return the pair of these upstreams. `said`: the clients' and the new product, if the user named them. `within`:
    seconds for a login at a broker whose product is not configured; None: no login is tried. Raises `ConfigError`.
    """
    for name in names:
        if name not in upstreams:
            raise ConfigError(f"there is no upstream.{name}; {nearest(name, list(upstreams))}")
    old, new = (upstreams[name] for name in names)
    if old is new:
        raise ConfigError(f"{old.name} is both the old upstream and the new one")
    product = said[1] or _product(new, within)
    if product is None:
        raise ConfigError(_unknown(f"upstream.{new.name}", "--product"))
    written = new.map.clients or old.map.clients
    clients = said[0] or written or _product(old, within)
    if clients is None:
        raise ConfigError(_unknown(f"upstream.{old.name}", "--clients"))
    decided = (new.map.clients or product) == clients
    if not decided:
        new = replace(new, map=replace(new.map, clients=clients))
    return Pair(old, new, clients, product, decided, config.listeners)


def _unknown(key: str, option: str) -> str:
    return (
        f"the product of {key} is not known: set its profile to one of {', '.join(PRODUCTS)}, name it with "
        f"{option}, or let --login find it out"
    )


def _product(upstream: Upstream, within: float | None) -> str | None:
    if upstream.profile.name in PRODUCTS:
        return upstream.profile.name
    return None if within is None else logins.product(upstream, within)


def try_logins(pair: Pair, auths: Iterable[AuthSettings], within: float) -> None:
    """Try each login that the relay may use at the new brokers, and add what became of it to the report."""
    report = pair.report
    tried = logins.known(pair.listeners, auths, pair.old.name, pair.new)
    report.logins += logins.converse(pair.new, pair.product, tried, within)
    if not report.logins:
        report.open.append(f"no login at {pair.new.name} is known")
