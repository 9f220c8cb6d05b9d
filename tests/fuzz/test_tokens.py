"""Tokens and files that somebody made up: nothing is found, and a fault of each kind in those who read them is."""

from collections.abc import Callable
from random import Random
from typing import Any

import jwt
import pytest

from fuzz import tokens
from fuzz.caller import Finding
from fuzz.tokens import Forger
from stomprelay.auth.tokens import BadToken, Bearer, Tokens

_READ = Tokens.read


def _played() -> set[str]:
    """Have some hundred tokens made up. Return what was found."""
    found: list[Finding] = []
    for number in range(60):
        Forger(Random(number), found.append).forge()
    return {each.what for each in found}


def test_nothing_is_found() -> None:
    """Good tokens let in, all others are refused, and files are read or refused."""
    assert _played() == set()


def _refuses(*_: object) -> Bearer:
    raise BadToken("so it is")


def _repeats(_: Tokens, token: bytes, wall: float) -> Bearer:
    raise BadToken(token.decode())


def _believes(_: Tokens, token: bytes, wall: float) -> Bearer:
    """As if a signature did not count."""
    try:
        said = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError) as error:
        raise BadToken("no token") from error
    return Bearer("alice" if said.get("sub") == "alice" else "", frozenset(), wall + 1)


def _stays(original: Callable[..., Bearer], *arguments: Any) -> Bearer:
    return original(*arguments)._replace(until=0.0)


def _raises(*_: object) -> Bearer:
    raise KeyError("something")


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (_refuses, "a good token is refused"),
        (_repeats, "a refusal says what was shown"),
        (_believes, "a token that nobody issued lets in"),
        (lambda *arguments: _stays(_READ, *arguments), "a token that has expired lets in"),
        (_raises, "who may come in raises"),
    ],
)
def test_what_must_not_be_is_seen(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[..., Bearer], what: str
) -> None:
    """One that refuses all, repeats them, believes them, forgets their end, or raises."""
    monkeypatch.setattr(Tokens, "read", spoil)
    assert what in _played()


def test_an_error_that_shows_a_secret_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in a file may be one."""

    def shows(content: bytes) -> None:
        raise ValueError(content.decode(errors="replace"))

    monkeypatch.setattr(tokens, "read_logins", shows)
    assert "an error shows what stands in a file" in _played()
