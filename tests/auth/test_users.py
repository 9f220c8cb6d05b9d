"""Files of users, and of what brokers are told of them: what stands in them, and what is wrong with others."""

import threading
from contextlib import suppress

import pytest
from argon2.exceptions import VerificationError
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.auth.lines import is_name, read_logins
from stomprelay.auth.users import User, Users, make_hash, read_groups
from stomprelay.session.handshake import Credentials
from tests.auth.issuing import CHEAP, USERS

HASH = CHEAP.hash("x", salt=b"the same each run")


@pytest.mark.parametrize("eol", [b"\n", b"\r\n"], ids=repr)
def test_who_is_in_the_file(eol: bytes) -> None:
    """Names, and their groups; comments are nobody; an end of a line is LF, or as on Windows."""
    users = Users.read(USERS.replace(b"\n", eol))
    assert users == Users.read(USERS)
    assert list(users.entries) == ["alice", "bob", "carol"]
    groups = ["admins staff", "", "auditors", ""]
    assert [" ".join(sorted(users.groups(name))) for name in ("alice", "bob", "carol", "dave")] == groups
    assert "alice" in users
    assert "dave" not in users
    assert None not in users


@pytest.mark.parametrize(
    ("name", "passcode", "right"),
    [
        ("alice", b"secret", True),
        ("bob", b"geheim", True),
        ("alice", b"geheim", False),
        ("alice", b"", False),
        ("alice", b"secret\0", False),
        ("alice", b"\xff\xfe", False),
        ("Alice", b"secret", False),
        ("carol", b"", False),
        ("carol", b"secret", False),
        ("dave", b"secret", False),
        (None, b"secret", False),
    ],
)
def test_passcodes(name: str | None, passcode: bytes, right: bool) -> None:
    """Only the user's own fits, and is known again without its hash; where nobody has one, nobody is let in."""
    users = Users.read(USERS)
    assert not users.known(name, passcode)
    assert users.verify(name, passcode) is right
    assert users.known(name, passcode) is right
    assert not users.known("bob", b"secret")
    assert not Users.read(USERS).known(name, passcode)
    for content in (b"carol::auditors\n", b""):
        assert not Users.read(content).verify(name, passcode)


def test_unknown_users_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash is compared for them as well."""
    compared = []

    def verify(_: object, spelled: str, passcode: bytes) -> bool:
        compared.append(spelled)
        return True

    monkeypatch.setattr("stomprelay.auth.users.PasswordHasher.verify", verify)
    users = Users.read(USERS)
    assert not users.verify("dave", b"secret")
    assert not users.verify("carol", b"secret")
    assert not users.verify(None, b"secret")
    assert compared == [users.entries["alice"].hash] * 3


def test_nothing_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is said, and is not taken for another passcode."""

    def verify(_: object, spelled: str, passcode: bytes) -> bool:
        raise VerificationError("Memory allocation error")

    monkeypatch.setattr("stomprelay.auth.users.PasswordHasher.verify", verify)
    with pytest.raises(VerificationError):
        Users.read(USERS).verify("alice", b"secret")


def test_it_is_compared_in_several_threads() -> None:
    """They do not disturb each other."""
    users = Users.read(USERS)
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda code=code: found.append(users.verify("alice", code)))
        for code in (b"secret", b"wrong") * 4
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == [False] * 4 + [True] * 4


def test_a_hash_that_we_make() -> None:
    """It is Argon2id, and fits; no repr shows one, of the file or of a user."""
    spelled = make_hash("größer".encode())
    assert spelled.startswith("$argon2id$")
    assert Users.read(f"u:{spelled}:".encode()).verify("u", "größer".encode())
    users = Users.read(USERS)
    assert "argon2" not in repr(users) + repr(users.entries["alice"])
    assert users == Users.read(USERS)
    assert users != Users.read(USERS.replace(b"staff", b"others"))
    assert repr(User(HASH, frozenset("ba"))) == "User(['a', 'b'])"


WRONG = [
    (b"alice\n", "line 1 has 1 fields in place of 3"),
    (b"# x\n\nalice:\n", "line 3 has 2 fields"),
    (b"alice:secret:\n", "line 1 has no Argon2 hash"),
    (b"alice:$argon2id$v=19$m=8:\n", "line 1 has no Argon2 hash"),
    (f"alice:{HASH.replace('m=8', 'm=1048577')}:\n".encode(), "more than 1 GiB"),
    (f"alice:{HASH.replace('t=1', 't=65')}:\n".encode(), "64 passes"),
    (f"alice:{HASH.replace('p=1', 'p=65')}:\n".encode(), "64 threads"),
    *[
        (f"alice:{damaged}:\n".encode(), "line 1 has a hash that is damaged")
        for damaged in (
            HASH[:-25],
            HASH[:-1] + "!",
            HASH.replace("m=8", "m=7"),
            HASH.replace("m=8", "m=-8"),
            HASH.replace("t=1", "t=0"),
            HASH.replace("p=1", "p=0"),
            "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$" + HASH.rpartition("$")[2],
        )
    ],
    (f"alice:{HASH}:a,,b\n".encode(), "line 1 has a group without a name"),
    (f"alice:{HASH}:a:b\n".encode(), "with a colon"),
    (f":{HASH}:\n".encode(), "does not begin with a name"),
    (f" alice:{HASH}:\n".encode(), "does not begin with a name"),
    (f"a\tb:{HASH}:\n".encode(), "does not begin with a name"),
    (f"alice:{HASH}:\nalice::\n".encode(), "line 2 is about a user who has a line already"),
    (b"alice::\n\xff::\n", "line 2 is not UTF-8"),
]


@pytest.mark.parametrize(("content", "why"), WRONG)
def test_a_users_file_that_is_wrong(content: bytes, why: str) -> None:
    """The line is named, and nothing that stands in it is shown."""
    with pytest.raises(ValueError, match=why) as caught:
        Users.read(content)
    assert "secret" not in str(caught.value)
    assert "argon2id" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o666])
def test_a_file_that_everybody_may_read(mode: int) -> None:
    """It holds what only the relay may know."""
    for read in (Users.read, read_logins):
        with pytest.raises(ValueError, match=rf"its mode is {mode:o}: chmod 600"):
            read(b"", mode)
        read(b"", 0o640)


def test_logins() -> None:
    """The last field may have colons; without it no passcode is sent."""
    assert read_logins(b"# x\nalice:app:a:b c\nbob:app2:\n") == {
        "alice": Credentials(b"app", b"a:b c"),
        "bob": Credentials(b"app2"),
    }
    assert "a:b" not in repr(read_logins(b"alice:app:a:b c\n"))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"alice:app\n", "line 1 has 2 fields"),
        (b"alice::x\n", "line 1 has no login"),
        (b":app:x\n", "line 1 does not begin with a name"),
        (b"alice:app:x\nalice:app:y\n", "line 2 is about a user"),
        (b"alice:app:x\0y\n", "line 1 has control characters"),
    ],
)
def test_logins_that_are_wrong(content: bytes, why: str) -> None:
    """As with users."""
    with pytest.raises(ValueError, match=why):
        read_logins(content)


@pytest.mark.parametrize("text", ["a", "Jane Doe", "ä@b.example", "", " a", "a\u2028", "a" * 256])
def test_names(text: str) -> None:
    """In one line, and seen; blanks around those of an option do not count."""
    assert is_name(text) is (text in ("a", "Jane Doe", "ä@b.example"))
    assert read_groups(" a, b ") == {"a", "b"}
    assert read_groups(" ") == frozenset()


PIECES = st.sampled_from([b"a", b":", b"\n", b"#", HASH.encode(), b",", b"\r", b"\xff"])


@given(st.binary() | st.lists(PIECES).map(b"".join))
def test_any_bytes(content: bytes) -> None:
    """Nothing but `ValueError` comes of bytes of any kind, and it is short."""
    for read in (Users.read, read_logins):
        with suppress(ValueError):
            found = read(content)
            assert all("\n" not in name for name in (found.entries if isinstance(found, Users) else found))
