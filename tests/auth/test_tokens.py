"""Tokens: which are good, and why others are not; whatever comes, no other error than that is raised."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.auth.settings import is_token
from stomprelay.auth.tokens import ALGORITHMS, LONGEST, MOST_GROUPS, BadToken, Bearer, Key, Tokens, read_keys
from tests.auth.issuing import ISSUER, NOW, STRANGER, claims, part, public_pem, token

RSA = rsa.generate_private_key(65537, 2048)
SECRET = bytes(range(64))


def tokens(**changed: Any) -> Tokens:
    """Tokens of the issuer, for this relay."""
    settings: dict[str, Any] = {
        "keys": read_keys(public_pem()),
        "algorithms": ("ES256",),
        "audience": ("stomprelay", "other"),
        **changed,
    }
    return Tokens(**settings)


def jwks(*keys: Any, **more: Any) -> bytes:
    """A JWKS with the public halves of these keys, or secrets, called k1, k2 and so on."""
    kinds: dict[type, Any] = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
    }
    found = []
    for number, key in enumerate(keys, 1):
        if isinstance(key, bytes):
            made = {"kty": "oct", "k": part(key).decode()}
        elif isinstance(key, dict):
            made = key
        else:
            [kind] = [each for known, each in kinds.items() if isinstance(key, known)]
            made = kind.to_jwk(key.public_key(), as_dict=True)
        found.append({"kid": f"k{number}", **made, **more})
    return json.dumps({"keys": found}).encode()


def test_a_good_token() -> None:
    """Whose it is, until when (clocks may differ), and that one audience of several is enough."""
    assert tokens().read(token(), NOW) == Bearer("alice", frozenset({"staff"}), NOW + 70)
    assert tokens().read(token(aud=["bank", "other"]), NOW).user == "alice"
    assert tokens(leeway=0).read(token(exp=NOW + 1, nbf=NOW), NOW).until == NOW + 1
    assert tokens().read(token(exp=NOW - 9, nbf=NOW + 10), NOW).until == NOW + 1
    with pytest.raises(BadToken, match="expired"):
        tokens(leeway=0).read(token(exp=NOW), NOW)


def unsigned(**changed: Any) -> bytes:
    """A token of the algorithm `none`."""
    return part({"alg": "none", "typ": "JWT"}) + b"." + part(claims(**changed)) + b"."


def forged(secret: bytes, algorithm: str = "HS256") -> bytes:
    """A token whose HMAC has a public key for its secret; PyJWT refuses to make one."""
    said = part({"alg": algorithm}) + b"." + part(claims())
    return said + b"." + part(hmac.digest(secret, said, hashlib.sha256))


def nested(depth: int) -> bytes:
    """A token of the issuer whose claims are lists in lists."""
    said = part({"alg": "ES256"}) + b"." + part(b'{"sub":' + b"[" * depth + b"]" * depth + b"}")
    key = jwt.get_algorithm_by_name("ES256")
    return said + b"." + part(key.sign(said, ISSUER))


BAD = [
    ("no algorithm", unsigned(), "an algorithm that is not allowed"),
    ("another case of none", part({"alg": "NONE"}) + b"." + part(claims()) + b".", "an algorithm"),
    ("no header of that name", part({}) + b"." + part(claims()) + b".", "an algorithm"),
    ("an algorithm that is no text", part({"alg": ["ES256"]}) + b"." + part(claims()) + b".", "an algorithm"),
    ("a public key as secret", forged(public_pem()), "an algorithm"),
    ("the same key, another algorithm", token(RSA, "RS256"), "an algorithm"),
    ("another key", token(STRANGER), "none of the keys signed it"),
    ("another audience", token(aud="bank"), "for somebody else"),
    ("no audience", token(aud=None), "no claim aud"),
    ("expired", token(exp=NOW - 10), "it has expired"),
    ("expired long ago", token(exp=0), "it has expired"),
    ("without an end", token(exp=None), "no claim exp"),
    ("an end that is no number", token(exp="never"), "exp is no time"),
    ("an end that is true", token(exp=True), "exp is no time"),
    ("an end beyond all times", token(exp=10**300), "exp is no time"),
    ("an end that is no time", token(exp=float("nan")), "exp is no time"),
    ("not yet", token(nbf=NOW + 11), "not valid yet"),
    ("a begin that is a list", token(nbf=[]), "nbf is no time"),
    ("nobody", token(sub=None), "claim sub is no name"),
    ("an empty name", token(sub=""), "claim sub is no name"),
    ("a name of two lines", token(sub="a\nb"), "claim sub is no name"),
    ("a long name", token(sub="a" * 256), "claim sub is no name"),
    (
        "more groups than anybody has",
        token(groups=[str(number) for number in range(MOST_GROUPS + 1)]),
        "groups",
    ),
    ("too long", token(pad="x" * LONGEST), f"longer than {LONGEST} bytes"),
    ("no token", b"eyJ.e.e", "it is no token"),
    ("nothing", b"", "it is no token"),
    ("two parts", b".".join(token().split(b".")[:2]), "it is no token"),
    ("no JSON in it", part({"alg": "ES256"}) + b"." + part(b"x") + b".", "none of the keys signed it"),
    ("a list for a header", part([]) + b"." + part(claims()) + b".", "it is no token"),
    # Of its 86 characters 80 are whole bytes; in the last one, four bits are none of its 64 bytes and have to be 0.
    ("a signature cut off", token()[:-6], "none of the keys signed it"),
    ("a signature with more bits than bytes", token()[:-1] + b"B", "it is no token"),
    ("deeply nested", nested(5000), "no"),
    ("an unknown critical header", token(headers={"crit": ["x"], "x": 1}), "it is no token"),
]


@pytest.mark.parametrize(("bad", "why"), [each[1:] for each in BAD], ids=[each[0] for each in BAD])
def test_a_bad_token(bad: bytes, why: str) -> None:
    """Each is told apart in the log, without a word of the token."""
    with pytest.raises(BadToken, match=why) as caught:
        tokens().read(bad, NOW)
    assert not bad or bad.decode("latin-1") not in str(caught.value)


@pytest.mark.parametrize("changed", ["https://other", None])
def test_another_issuer(changed: str | None) -> None:
    """Where one is asked for, it has to be that."""
    mine = tokens(issuer="https://login")
    assert mine.read(token(iss="https://login"), NOW).user == "alice"
    with pytest.raises(BadToken, match=r"another issuer|no claim iss"):
        mine.read(token(iss=changed), NOW)


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        (["a", "b"], {"a", "b"}),
        ("a b  c", {"a", "b", "c"}),
        (None, set()),
        (7, set()),
        ({"a": 1}, set()),
        (["a", 7, "", "b\n", None, ["c"]], {"a"}),
    ],
)
def test_groups(groups: Any, found: set[str]) -> None:
    """A list, or words; what is no name is no group."""
    assert tokens().read(token(groups=groups), NOW).groups == found


def test_claims_of_other_names() -> None:
    """By their whole name first, then by a path."""
    mine = tokens(user="preferred_username", groups="realm.roles")
    good = token(preferred_username="bob", realm={"roles": ["x"]})
    assert mine.read(good, NOW) == Bearer("bob", frozenset({"x"}), NOW + 70)
    both: dict[str, Any] = {"realm": {"roles": ["x"]}, "realm.roles": ["y"]}
    whole = token(preferred_username="bob", **both)
    assert mine.read(whole, NOW).groups == {"y"}
    assert mine.read(token(preferred_username="bob", realm=[1]), NOW).groups == frozenset()


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS512"), (ISSUER, "ES256"), (SECRET, "HS512")]
)
def test_algorithms(key: Any, algorithm: str) -> None:
    """Of each kind of key."""
    mine = tokens(keys=read_keys(jwks(key)), algorithms=(algorithm,))
    assert mine.read(token(key, algorithm), NOW).user == "alice"


def test_edwards() -> None:
    """Ed25519 from PEM."""
    key = ed25519.Ed25519PrivateKey.generate()
    mine = tokens(keys=read_keys(public_pem(key)), algorithms=("EdDSA",))
    assert mine.read(token(key, "EdDSA"), NOW).user == "alice"


def test_a_key_is_chosen_by_its_name() -> None:
    """A token that names a key is verified by that one alone; one that names none, by each."""
    mine = tokens(keys=read_keys(jwks(STRANGER, ISSUER)))
    assert mine.read(token(headers={"kid": "k2"}), NOW).user == "alice"
    assert mine.read(token(), NOW).user == "alice"
    for name in ("k1", "k3"):
        with pytest.raises(BadToken, match="none of the keys"):
            mine.read(token(headers={"kid": name}), NOW)


def test_files_of_several_keys() -> None:
    """In PEM or a JWKS, each for its own algorithm; what cannot verify is left out."""
    mine = tokens(keys=read_keys(public_pem(STRANGER) + public_pem()))
    assert mine.read(token(headers={"kid": "k2"}), NOW).user == "alice"
    [key] = read_keys(jwks(RSA, alg="RS256"))
    assert key.algorithms == {"RS256"}
    keys = read_keys(jwks(ISSUER, {"kty": "XYZ"}, {"kty": "oct", "use": "enc", "k": ""}))
    assert [key.name for key in keys] == ["k1"]


PRIVATE = ISSUER.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "neither PEM nor a JWKS"),
        (b"{}", "no list of"),
        (b'{"keys": [1]}', "no list of"),
        (b'{"keys": []}', "no key that could verify"),
        (b"[" * 100_000, "neither PEM nor"),
        (PRIVATE, "a private key"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "part 1 .PUBLIC KEY. is no"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "part 1 .CERTIFICATE. is no"),
        (b"-----BEGIN PUBLIC KEY-----\n", "no key that could verify"),
        (jwks(SECRET[:31]), "less than 32 bytes"),
        (jwks({"kty": "RSA", "n": "AQAB", "e": "AQAB"}), "key 1 cannot be read|bits"),
        (jwks({"kty": "EC", "d": "AQAB"}), "key 1 is a private key"),
        (jwks({"kty": "EC"}), "key 1 cannot be read"),
        (jwks({"kty": "OKP", "crv": 7}), "key 1 cannot be read"),
        (jwks({"kty": "oct", "k": 7}), "key 1 cannot be read"),
        (jwks({"kty": "oct"}), "key 1 cannot be read"),
        (jwks(ISSUER, kid=7), "kid or an alg that is no text"),
        (jwks(ISSUER, alg=["ES256"]), "kid or an alg that is no text"),
        (public_pem() * 33, "33 keys, and may have 32"),
        (public_pem(rsa.generate_private_key(65537, 1024)), "1024 bits"),
    ],
)
def test_a_file_of_keys_that_is_wrong(content: bytes, why: str) -> None:
    """It is refused before any token comes, and the error shows no key."""
    with pytest.raises(ValueError, match=why):
        read_keys(content)


def test_keys() -> None:
    """Every key is good for its own kind of algorithm alone, and no repr shows one."""
    kinds = [read_keys(public_pem(key))[0].algorithms for key in (RSA, ISSUER)] + [
        read_keys(jwks(SECRET))[0].algorithms
    ]
    assert [sorted(each)[0][:2] for each in kinds] == ["PS", "ES", "HS"]
    assert sum(map(len, kinds)) == len(frozenset[str]().union(*kinds))
    assert frozenset().union(*kinds) < set(ALGORITHMS)
    assert "none" not in ALGORITHMS
    [key] = read_keys(jwks(SECRET))
    assert repr(key) == "Key('k1', ['HS256', 'HS384', 'HS512'])"
    assert "keys" not in repr(tokens())
    assert isinstance(key, Key)


@pytest.mark.parametrize(
    ("passcode", "yes"),
    [
        (token(), True),
        (unsigned(), True),
        (base64.urlsafe_b64encode(b'{ "alg": 1}').rstrip(b"=") + b".e30.", True),
        (b"secret", False),
        (b"a.b.c", False),
        (b"eyJ", False),
        (b"eyJ.a.b.c", False),
        (token() + b"\n", False),
        (b"", False),
        (None, False),
    ],
)
def test_what_is_taken_for_a_token(passcode: bytes | None, yes: bool) -> None:
    """By its form alone; any other passcode is one."""
    assert is_token(passcode) is yes


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["sub", "exp", "nbf", "iat", "aud", "iss", "groups", "jti", "alg", "kid", "crit", "b64"]
)
OBJECTS = st.dictionaries(NAMES | st.text(), JSON)


@given(st.binary() | st.lists(st.binary() | OBJECTS.map(lambda each: json.dumps(each).encode()), max_size=5))
def test_any_bytes(sent: bytes | list[bytes]) -> None:
    """Nothing but `BadToken` comes of bytes of any kind, and nobody is let in by them."""
    said = sent if isinstance(sent, bytes) else b".".join(map(part, sent))
    is_token(said)
    with pytest.raises(BadToken):
        tokens().read(said, NOW)


@given(OBJECTS, OBJECTS)
def test_any_claims_of_the_issuer(headers: dict[str, Any], said: dict[str, Any]) -> None:
    """Even who has the key can say nothing by which more than a name and groups come of it, or nothing at all."""
    payload = {**claims(), **said}
    signed = part({"alg": "ES256", **headers}) + b"." + part(payload)
    signed += b"." + part(jwt.get_algorithm_by_name("ES256").sign(signed, ISSUER))
    try:
        found = tokens().read(signed, NOW)
    except BadToken:
        return
    assert found.user == payload["sub"]
    assert found.until >= NOW
    assert all(found.groups)
