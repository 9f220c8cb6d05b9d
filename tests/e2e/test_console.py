"""The console in a real browser, with a relay before its own broker: all that can be said, and all that comes."""

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.browser import CONTRAST, OUTSIDE, PHONE, page, site
from tests.e2e.certificates import Authority
from tests.e2e.raw import Connection
from tests.e2e.relay import Relay, listening, served
from tests.e2e.shown import HOSTILE, TURNED

pytestmark = pytest.mark.e2e

TOKEN: Final = "a-token-of-more-than-sixteen-characters"
CREDENTIALS: Final = {"username": "anybody", "password": TOKEN}
SECRET: Final = "s3cret-pass"


class Running(NamedTuple):
    """A relay with a console, and where clients and browsers find it."""

    relay: Relay
    port: int
    admin: int
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.admin}/console"


@contextmanager
def console_of(directory: Path, more: str = "", scheme: str = "http") -> Iterator[Running]:
    """Run a relay with a console, and this at the end of its configuration."""
    token = directory / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    admin = f'admin_token_file = "{token}"\nadmin_console = true\nlog_level = "debug"'
    old = listening(0, "old", 'versions = ["1.0"]\nupstream = "main"')
    with served(directory, f'uri = "memory:"\n{more}', old, admin) as running:
        yield Running(running, running.port, running.admin.port, scheme)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One for the tests that do it no harm."""
    with console_of(tmp_path_factory.mktemp("console")) as running:
        yield running


@contextmanager
def console(browser: Any, running: Running, **context: Any) -> Iterator[Any]:
    """Open the console; the browser must have nothing to complain of."""
    with page(browser, http_credentials=CREDENTIALS, **context) as found:
        found.goto(running.url)
        found.wait_for_selector("#version option", state="attached")
        yield found
        assert found.complaints == []


def connect(found: Any, version: str = "1.2") -> None:
    """Connect in this version."""
    found.select_option("#version", version)
    found.click("#connect-do")
    found.wait_for_selector(f"#peer:has-text('STOMP {version}')")


def heard(found: Any, *words: str) -> Any:
    """The last frame that was received with all of these words, once it is there."""
    rows = found.locator("#log li.received")
    for each in words:
        rows = rows.filter(has_text=each)
    rows.last.wait_for()
    return rows.last


def say(found: Any, destination: str, body: str, headers: str = "") -> None:
    """Send a message."""
    found.fill("#send-destination", destination)
    found.fill("#send-headers", headers)
    found.fill("#body", body)
    found.click("#send button")


def subscribe(found: Any, destination: str, ack: str = "auto") -> None:
    """Subscribe, and wait until that is confirmed."""
    found.fill("#subscribe-destination", destination)
    found.select_option("#ack", ack)
    found.check("#receipt")
    found.click("#subscribe button")
    heard(found, "RECEIPT")
    found.uncheck("#receipt")


def order(found: Any, path: str) -> None:
    """Give the relay an order."""
    found.evaluate(
        """(path) => fetch(path, { method: "POST", body: "{}", headers: { "content-type": "application/json" } })""",
        path,
    )


def leave(found: Any) -> None:
    """Say goodbye; the session ends."""
    found.click("#disconnect")
    found.wait_for_selector("#state:has-text('not connected')")


@pytest.mark.parametrize(("version", "opening"), [("1.0", 0), ("1.1", 1), ("1.2", 1)])
def test_each_version(browser: Any, there: Running, version: str, opening: int) -> None:
    """Connect, subscribe, send what has to be escaped, acknowledge, and go; what passes is seen as on the wire."""
    queue = f"/queue/{version}"
    with console(browser, there) as found:
        connect(found, version)
        first = found.locator("#log li.sent").first.inner_text()
        assert first.count(f"accept-version:{version}") == opening
        subscribe(found, queue, "client")
        say(found, queue, "grüße\nund mehr", "odd:a\\b" if version == "1.0" else "odd:a\\b:c")
        message = heard(found, "MESSAGE", queue)
        assert "grüße\nund mehr" in message.inner_text()
        assert ("odd:a\\b" if version == "1.0" else "odd:a\\\\b\\cc") in message.inner_text()
        assert message.locator("button:text-is('NACK')").count() == (version != "1.0")
        found.check("#receipt")
        message.locator("button:text-is('ACK')").click()
        found.locator("#log li.received:has-text('RECEIPT')").nth(1).wait_for()
        assert found.inner_text("#awaited") == ""
        leave(found)
        assert found.inner_text("#notice").startswith("The session has ended")
    taken = Connection.to(there.port)
    taken.connect()
    taken.write(f"SUBSCRIBE\nid:0\ndestination:{queue}\nreceipt:r\n\n\0".encode())
    assert taken.frame().startswith(b"RECEIPT")
    taken.close()


def test_a_transaction(browser: Any, there: Running) -> None:
    """What is sent in one is there when it is committed; what is aborted never is."""
    with console(browser, there) as found:
        connect(found)
        subscribe(found, "/queue/tx")
        assert found.is_disabled("#commit")
        found.click("#begin")
        say(found, "/queue/tx", "never")
        found.click("#abort")
        found.click("#begin")
        say(found, "/queue/tx", "committed")
        found.select_option("#transaction", "")
        say(found, "/queue/tx", "at once")
        heard(found, "MESSAGE", "at once")
        found.select_option("#transaction", index=1)
        found.click("#commit")
        heard(found, "MESSAGE", "committed")
        assert found.locator("#log li.received:has-text('never')").count() == 0
        leave(found)


def test_raw_frames_and_an_error(browser: Any, there: Running) -> None:
    """What is typed goes as it is; the ERROR is seen, the session has ended, and another one can begin."""
    with console(browser, there) as found:
        found.check("#by-hand")
        found.click("#connect-do")
        found.wait_for_selector("#state:has-text('open')")
        for frame in (
            f"CONNECT\naccept-version:1.1\nhost:/\nlogin:me\npasscode:{SECRET}\n\n",
            "SEND\ndestination:/queue/raw\n\nby hand",
            "NONSENSE\nwhat:this\n\n",
        ):
            found.fill("#raw-text", frame)
            found.click("#raw button")
        error = heard(found, "ERROR")
        assert "error" in error.get_attribute("class")
        found.wait_for_selector("#state:has-text('not connected')")
        assert re.match(r"The session has ended: .+ \(1000\)\.", found.inner_text("#notice"))
        assert "NONSENSE\nwhat:this" in found.inner_text("#log")
        assert SECRET not in found.content()
        found.uncheck("#by-hand")
        connect(found, "1.0")
        subscribe(found, "/queue/raw")
        assert "by hand" in heard(found, "MESSAGE").inner_text()
        leave(found)


def test_secrets_are_not_shown(browser: Any, there: Running) -> None:
    """The passcode is neither in the page nor in the log of the relay, nor is the token or a ticket in an address."""
    with console(browser, there) as found:
        asked: list[str] = []
        found.on("request", lambda request: asked.append(request.url))
        found.on("websocket", lambda socket: asked.append(socket.url))
        found.fill("#login", "somebody")
        found.fill("#passcode", SECRET)
        connect(found)
        assert "login:somebody\npasscode:***" in found.inner_text("#log")
        assert SECRET not in found.content()
        assert f"ws://localhost:{there.admin}/console/socket" in asked
        assert not any("?" in each or TOKEN in each for each in asked)
        leave(found)
    there.relay.wait_for_log('main: connected: login "somebody"')
    assert SECRET not in there.relay.log
    assert "ticket" not in there.relay.log


def test_what_others_send_stays_text(browser: Any, there: Running) -> None:
    """Markup, words that run the other way, controls, bytes that are no text, in heads and bodies."""
    with console(browser, there) as found:
        connect(found)
        subscribe(found, "/queue/hostile")
        other = Connection.to(there.port)
        other.connect()
        for body in (HOSTILE.encode(), TURNED.encode(), b"\x1b[2Ja\0b", b"\xff\xfe" * 300):
            head = f"SEND\ndestination:/queue/hostile\nsaid:{HOSTILE}\ncontent-length:{len(body)}\n\n"
            other.write(head.encode() + body + b"\0")
        rows = found.locator("#log li.received:has-text('MESSAGE')")
        rows.nth(3).wait_for()
        bodies = [each.inner_text() for each in rows.locator("pre.body").all()]
        assert bodies[0] == HOSTILE
        assert not set("\u202e\u202d\u2066\u2067") & set(bodies[1])
        assert "\\u{202e}" in bodies[1]
        assert bodies[2] == "\\u{1b}[2Ja\\u{0}b"
        assert bodies[3].startswith("ff fe ff fe")
        assert bodies[3].endswith("and 88 bytes more")
        assert found.locator("#log script, #log img, #log b").count() == 0
        other.close()
        leave(found)


@pytest.mark.ci
def test_no_more_is_kept_than_a_page_can_bear(browser: Any, there: Running) -> None:
    """Old frames go, a large one is cut; it says how many went."""
    with console(browser, there) as found:
        connect(found)
        subscribe(found, "/queue/flood")
        other = Connection.to(there.port)
        other.connect()
        other.write(b"SEND\ndestination:/queue/flood\n\n" + b"x" * 3_000_000 + b"\0")
        large = heard(found, "MESSAGE", "3,000,000 bytes")
        assert large.inner_text().endswith("x… and more")
        assert len(large.inner_text()) < 17_000
        other.write(b"".join(b"SEND\ndestination:/queue/flood\n\nnumber %d\0" % each for each in range(1500)))
        heard(found, "number 1499")
        assert found.locator("#log li").count() == 500
        assert re.search(r"; 1,00\d older ones are gone", found.inner_text("#counts"))
        found.click("#clear")
        assert found.locator("#log li").count() == 0
        other.close()
        leave(found)


@pytest.mark.ci
def test_heart_beats_are_counted(browser: Any, there: Running) -> None:
    """In both directions, as they were agreed on; they are no frames."""
    with console(browser, there) as found:
        found.fill("#beat", "50,50")
        connect(found)
        found.wait_for_selector("#counts:has-text('1 sent, 1 received; heart-beats: 2 sent')")
        found.wait_for_function("() => log.beats.received >= 2")
        leave(found)


@pytest.mark.ci
def test_a_session_that_ends(browser: Any, tmp_path: Path) -> None:
    """It says why: an operator, this page, a reload that changes `admin`, a relay that stops; and connects anew."""
    with page(browser, http_credentials=CREDENTIALS) as found:
        with console_of(tmp_path) as running:
            found.goto(running.url)
            found.select_option("#listener", "old")
            assert found.locator("#version option").all_inner_texts() == ["1.0"]
            connect(found, "1.0")
            name = found.evaluate("async () => (await (await fetch('sessions')).json()).sessions[0].session")
            order(found, f"sessions/{name}/kill")
            found.wait_for_selector(
                "#notice:has-text('The session has ended: the session was ended (1000).')"
            )
            connect(found, "1.0")
            found.click("#cut")
            found.wait_for_selector("#notice:has-text('it was cut off here')")
            connect(found, "1.0")
            found.evaluate("session.saidAt -= IDLE")
            found.wait_for_selector("#notice:has-text('nothing was asked for in half an hour')")
            connect(found, "1.0")
            file = tmp_path / "stomprelay.toml"
            file.write_text(f'admin_hosts = ["localhost"]{file.read_text()}')
            order(found, "reload")
            found.wait_for_selector(
                "#notice:has-text('The session has ended: the session was ended (1000).')"
            )
            order(found, "drain")
            found.click("#connect-do")
            found.wait_for_selector("#notice:has-text('Not connected: no new client is let in')")
            order(found, "drain/cancel")
            connect(found, "1.0")
        found.wait_for_selector("#notice:has-text('The session has ended')")
        found.click("#connect-do")
        found.wait_for_selector("#notice:has-text('Not connected: the relay does not answer')")


def test_a_page_of_another_site(browser: Any, there: Running) -> None:
    """It gets no WebSocket, though it knew a ticket and the browser has the token; our own page gets it with that."""
    request = urllib.request.Request(
        f"{there.url}/open",
        b'{"listener": "main"}',
        {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        ticket = json.loads(answer.read())["ticket"]
    attempt = """([url, ticket]) => new Promise((done) => {
      const socket = new WebSocket(url, ["v12.stomp", `ticket.${ticket}`]);
      socket.onopen = () => { socket.close(); done("open"); };
      socket.onerror = () => done("refused");
    })"""
    place = f"ws://localhost:{there.admin}/console/socket"
    with site() as origin, page(browser, http_credentials=CREDENTIALS) as found:
        found.goto(origin)
        assert found.evaluate(attempt, [place, ticket]) == "refused"
        assert any("403" in each for each in found.complaints)
        found.goto(there.url)
        assert found.evaluate(attempt, [place, ticket]) == "open"


@pytest.mark.ci
def test_over_tls(browser: Any, tmp_path: Path) -> None:
    """The page and its WebSocket come by TLS as well."""
    tls = f"[admin_tls]\n{Authority(tmp_path, 'authority').issue('localhost').lines}"
    with (
        console_of(tmp_path, tls, "https") as running,
        console(browser, running, ignore_https_errors=True) as found,
    ):
        connect(found)
        subscribe(found, "/queue/tls")
        say(found, "/queue/tls", "x" * 200_000)
        heard(found, "MESSAGE", "200,000 bytes")
        leave(found)


# Who looks


@pytest.mark.ci
def test_on_a_phone(browser: Any, there: Running) -> None:
    """Nothing sticks out sideways, whatever is in it."""
    with console(browser, there, viewport={"width": PHONE, "height": 844}) as found:
        connect(found)
        subscribe(found, "/queue/" + "long" * 40)
        say(found, "/queue/phone", "w" * 500)
        found.wait_for_selector("#log li:has-text('wwww')")
        assert found.evaluate("document.documentElement.scrollWidth") <= PHONE
        assert found.evaluate(OUTSIDE) == []
        leave(found)


@pytest.mark.ci
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser: Any, there: Running, scheme: str) -> None:
    """Every word can be read, by day and by night (WCAG AA), an ERROR and a notice too."""
    with console(browser, there, color_scheme=scheme) as found:
        connect(found)
        subscribe(found, "/queue/contrast", "client")
        say(found, "/queue/contrast", "body")
        heard(found, "MESSAGE")
        assert found.evaluate(CONTRAST) == []
        found.fill("#raw-text", "NONSENSE\n\n")
        found.click("#raw button")
        found.wait_for_selector("#state:has-text('not connected')")
        heard(found, "ERROR")
        assert found.evaluate(CONTRAST) == []


@pytest.mark.ci
def test_by_keyboard(browser: Any, there: Running) -> None:
    """Everything is reached and done by it: from the first key to the end of the session."""
    with console(browser, there) as found:
        keys = found.keyboard
        keys.press("Tab")
        assert found.evaluate("document.activeElement.textContent") == "To the frames"
        assert found.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        found.focus("#login")
        keys.type("me")
        keys.press("Enter")
        found.wait_for_selector("#state.good")
        found.focus("#subscribe-destination")
        keys.press("Control+a")
        keys.type("/queue/keys")
        keys.press("Tab")
        keys.type("client")
        keys.press("Enter")
        found.focus("#subscribe button")
        keys.press("Enter")
        found.wait_for_selector("#subscriptions li")
        found.focus("#send-destination")
        keys.press("Control+a")
        keys.type("/queue/keys")
        found.focus("#body")
        keys.type("typed")
        keys.press("Control+Enter")
        heard(found, "MESSAGE", "typed").locator("button").first.focus()
        keys.press("Enter")
        found.wait_for_selector("#log li.sent:has-text('ACK')")
        found.focus("#subscriptions button")
        keys.press("Enter")
        assert found.evaluate("document.activeElement.id") == "subscribe-destination"
        found.focus("#disconnect")
        keys.press("Space")
        found.wait_for_selector("#state:has-text('not connected')")


def test_the_dashboard_leads_to_it(browser: Any, there: Running) -> None:
    """And back."""
    with page(browser, http_credentials=CREDENTIALS) as found:
        found.goto(there.url.removesuffix("console"))
        found.click("#console a")
        found.wait_for_selector("#connect")
        found.click("header a:has-text('Dashboard')")
        found.wait_for_selector("#fresh[data-state=live]")
        assert found.complaints == []


def test_without_javascript(browser: Any, there: Running) -> None:
    """It says what it would take."""
    with page(browser, http_credentials=CREDENTIALS, java_script_enabled=False) as found:
        found.goto(there.url)
        assert "This page speaks STOMP by a script" in found.inner_text("noscript")
