"""One world told input by input, to see what led to a finding."""

from collections.abc import Callable
from dataclasses import fields

from fuzz.caller import Caller, Finding
from fuzz.world import World
from stomprelay.relay.effects import Effect
from stomprelay.relay.model.group import Broker
from stomprelay.session.leg import Leg


def told(seed: int, number: int) -> tuple[list[str], list[Finding]]:
    """Play the world of this number. Return what its relays were told and answered, and what was found."""
    lines: list[str] = []
    world = World(seed, number)
    lines.append(str(world.scene))

    def listen(caller: Caller, act: Callable[..., object], arguments: tuple[object, ...]) -> None:
        name, values = act.__name__, arguments[:-1]
        if name == "handle":
            (event,) = values
            name, values = type(event).__name__, tuple(getattr(event, each.name) for each in fields(event))  # type: ignore[arg-type]
        said = [_shown(caller, each) for each in values]
        lines.append(f"{world.now:.3f} {caller.relay.name.decode()} {name} {' '.join(said)}".rstrip())

    def tell(caller: Caller, effect: Effect) -> None:
        lines.append(f"    {_effect(caller, effect)}")

    world.listen, world.tell = listen, tell
    world.run()
    return lines, world.findings


def _effect(caller: Caller, effect: Effect) -> str:
    values = (getattr(effect, each.name) for each in fields(effect))
    return " ".join([type(effect).__name__, *(_shown(caller, each) for each in values)])


def _shown(caller: Caller, what: object) -> str:
    if not isinstance(what, Leg):
        return str(what) if isinstance(what, Broker) else repr(what)
    peer = caller.peers.get(what)
    if peer is None:
        return "new"
    return "client" if peer.broker is None else f"{peer.broker}#{list(caller.peers).index(what)}"
