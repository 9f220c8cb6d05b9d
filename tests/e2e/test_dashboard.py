"""The page for people in a real browser: it is live, says when it is not, gives orders, and stays whole."""

import re
import signal
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browser import CONTRAST, OUTSIDE, PHONE, page
from tests.e2e.child import Child
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection, ScriptedBroker
from tests.e2e.relay import launch, served
from tests.e2e.shown import HOSTILE, LONG, RATE, SESSIONS, TURNED
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e


_AGED: Final = """(seconds) => {
  const data = structuredClone(shown);
  for (let second = 0; second < seconds; second += 1) {
    data.time += 1;
    data.listeners[0].counters.client_frames += 5;
    data.destinations[0].destination = `/queue/${second}`;
    for (const each of data.times) each.counts[second % each.counts.length] += 1;
    show(data);
  }
  const found = [...histories.values()];
  return [histories.size, Math.max(...found.map((each) => each.points.length)),
    Math.max(...found.map((each) => each.states?.length ?? 0)), document.querySelectorAll("*").length];
}"""


@dataclass
class MadeUp:
    """A relay that is made up, in a process of its own; see `shown`."""

    child: Child
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


@contextmanager
def made_up(directory: Path, *token: str, port: int | None = None) -> Iterator[MadeUp]:
    """Run a relay that is made up."""
    port = port or free_port()
    child = launch(directory, [sys.executable, "-m", "tests.e2e.shown", str(port), *token])
    try:
        child.wait_for_output("^serves$")
        yield MadeUp(child, port)
    finally:
        child.stop()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeUp]:
    """One for the tests that do it no harm."""
    with made_up(tmp_path_factory.mktemp("shown")) as running:
        yield running


@contextmanager
def looking(browser: Any, url: str, **context: Any) -> Iterator[Any]:
    """Open the page, and wait until it shows something; its console must have nothing to complain of."""
    with page(browser, **context) as found:
        found.goto(url)
        found.wait_for_selector("#fresh[data-state=live]")
        found.wait_for_selector("#session-rows tbody tr")
        yield found
        assert found.complaints == []


def text(found: Any, selector: str) -> str:
    """The text of an element."""
    said: str = found.locator(selector).inner_text()
    return said


def until(found: Any, condition: str, argument: Any = None) -> None:
    """Wait until the page says so."""
    found.wait_for_function(condition, arg=argument)


def logins(found: Any) -> list[str]:
    """Those of the sessions that are shown."""
    said: list[str] = found.locator("#session-rows tbody td[data-label=Login]").all_text_contents()
    return said


def names(found: Any) -> list[int]:
    """The numbers of the sessions that are shown."""
    return [
        int(each.rpartition("-")[2]) for each in found.locator("#session-rows tbody th").all_text_contents()
    ]


def shows(found: Any, first: int, label: str) -> None:
    """Wait until the table begins with the session of this number, and says so of its pages."""
    until(found, f"() => document.querySelector('#session-rows tbody th')?.textContent.endsWith('-{first}')")
    until(found, "(label) => document.querySelector('#range').textContent === label", label)


# What there is to see


def test_figures_are_live(browser: Any, shown: MadeUp) -> None:
    """A rate is what is counted in a second, its history grows, and the time is the relay's own."""
    with looking(browser, shown.url) as found:
        figure = "document.querySelector('.tile:nth-child(2)')"
        assert text(found, ".tile:nth-child(2) h3") == "Frames from clients"
        shown_rate = f"parseFloat({figure}.querySelector('.figure').innerText)"
        until(found, f"() => Math.abs({shown_rate} - {RATE}) < {RATE / 4}")
        points = f"() => {figure}.querySelector('.line').getAttribute('d').split(/[ML]/).length"
        before = found.evaluate(points)
        until(found, f"(before) => ({points})() >= before + 3", before)
        since = text(found, "#fresh-text")
        until(found, "(since) => document.querySelector('#fresh-text').innerText !== since", since)
        row = "#listeners tbody tr:first-child"
        assert text(found, f"{row} [data-label=Sessions]") == f"{SESSIONS:,}"
        assert re.fullmatch(r"\d+/s\s+[\d.]+ kB/s", text(found, f"{row} [data-label='From clients']"))
        assert "/queue/orders" in text(found, "#destinations")
        assert "all others" in text(found, "#destinations")
        assert "from a SEND to its RECEIPT" in text(found, "#times")
        assert "4,000" in text(found, "#outages")
        assert text(found, "#journal [data-label=State]").strip().startswith("is written")


def test_states_in_words(browser: Any, shown: MadeUp) -> None:
    """None is told by a colour alone; who is down says why, and a worker that is silent, from when its figures are."""
    with looking(browser, shown.url) as found:
        states = found.locator("#brokers tbody tr:not(.group) [data-label=State]").all_inner_texts()
        assert [each.split()[0] for each in states] == ["up", "down", "unknown"]
        assert HOSTILE in states[1]
        signs = found.eval_on_selector_all(
            ".state", "all => all.map((each) => getComputedStyle(each, '::before').content)"
        )
        assert {sign.strip('"').strip() for sign in signs} <= {"○", "●", "▲", "◆"}
        assert found.title().startswith("1 down")
        workers = found.locator("#workers tbody td[data-label=State]").all_inner_texts()
        assert workers[0] == "serves"
        assert re.search(r"does not answer; its figures are from \d\d:\d\d:\d\d", workers[1])


@pytest.mark.ci
def test_ten_thousand_sessions(browser: Any, shown: MadeUp) -> None:
    """They are sorted, searched and turned over by the relay; the page has one page of them."""
    with looking(browser, shown.url) as found:
        shows(found, 1, "1 to 50 of 10,000")
        found.click("#next")
        shows(found, 51, "51 to 100 of 10,000")
        assert names(found) == list(range(51, 101))
        found.click("#next")
        shows(found, 101, "101 to 150 of 10,000")
        found.click("#previous")
        shows(found, 51, "51 to 100 of 10,000")
        found.click("#first")
        shows(found, 1, "1 to 50 of 10,000")
        found.click("#session-rows thead button:has-text('Session')")
        shows(found, 10_000, "1 to 50 of 10,000")
        head = "#session-rows th:has(button:has-text('From client'))"
        found.click(f"{head} button")
        until(found, "() => document.querySelectorAll('[aria-sort=descending]').length === 1")
        until(found, "() => !document.querySelector('#session-rows tbody th').textContent.endsWith('-10000')")
        found.select_option("#size", "500")
        until(found, "() => document.querySelectorAll('#session-rows tbody tr').length === 500")
        found.fill("#search", "/QUEUE/42")
        until(found, "() => document.querySelector('#range').textContent.includes('found, 10,000 in all')")
        wanted = [each for each in range(4, SESSIONS + 1) if each % 97 == 42]
        rows = "document.querySelectorAll('#session-rows tbody tr')"
        until(found, f"(count) => {rows}.length === count", len(wanted))
        assert sorted(names(found)) == wanted
        found.fill("#search", "no*such[thing]")
        until(found, "() => document.querySelector('#range').textContent.startsWith('none')")
        assert "No session is like that." in text(found, "#session-rows")


def test_what_clients_call_themselves_stays_text(browser: Any, shown: MadeUp) -> None:
    """Markup, words that run the other way, ten thousand letters: nothing of it becomes part of the page."""
    with looking(browser, shown.url) as found:
        turned = TURNED
        for sign in "\u202e\u2066\U000e0041":
            turned = turned.replace(sign, f"\\u{{{ord(sign):x}}}")
        assert logins(found)[:3] == [HOSTILE, turned, LONG]
        until(found, "(name) => document.querySelector('#destinations').textContent.includes(name)", HOSTILE)
        found.fill("#search", "<script>")
        shows(found, 1, "1 to 1 of 1 found, 10,000 in all")
        assert found.locator("main script, main img").count() == 0
        assert found.title() == "1 down: stomprelay"
        for width in (1920, 1440, 1200, 900):
            found.set_viewport_size({"width": width, "height": 900})
            assert found.evaluate("document.documentElement.scrollWidth") <= width


# What is old


@pytest.mark.ci
def test_figures_that_are_old(browser: Any, tmp_path: Path) -> None:
    """It is said within moments, with the time that they are from, and no more once they are new."""
    with made_up(tmp_path) as running, looking(browser, running.url) as found:
        running.child.send(signal.SIGSTOP)
        found.wait_for_selector("#stale:visible")
        assert re.match(r"Stale since \d\d:\d\d:\d\d: ", text(found, "#stale"))
        assert re.fullmatch(r"stale since \d\d:\d\d:\d\d", text(found, "#fresh-text"))
        assert found.evaluate("performance.now() - fresh") >= 2000
        assert found.title().startswith("stale")
        running.child.send(signal.SIGCONT)
        found.wait_for_selector("#fresh[data-state=live]")
        found.wait_for_selector("#stale", state="hidden")


@pytest.mark.ci
def test_a_relay_that_ends_and_comes_back(browser: Any, tmp_path: Path) -> None:
    """The page waits for it; what was counted begins anew, and it says so."""
    with page(browser) as found:
        with made_up(tmp_path) as running:
            found.goto(running.url)
            found.wait_for_selector("#fresh[data-state=live]")
        found.wait_for_selector("#stale:has-text('the relay does not answer')")
        with made_up(tmp_path, port=running.port):
            found.wait_for_selector("#fresh[data-state=live]")
            found.wait_for_selector("#notice:has-text('started anew')")
            assert found.locator("#stale").is_hidden()
        assert all("ERR_CONNECTION" in each or "ERR_EMPTY" in each for each in found.complaints)


@pytest.mark.ci
def test_nobody_looks(browser: Any, shown: MadeUp) -> None:
    """A page that cannot be seen asks for nothing; it asks at once when it can."""
    with looking(browser, shown.url) as found:
        asked: list[str] = []
        found.evaluate(
            "window.away = true; Object.defineProperty(document, 'hidden', {get: () => window.away})"
        )
        until(found, "() => !asking && sessions.current === null")
        found.on("request", lambda request: asked.append(request.url))
        # Its figures become old meanwhile.
        found.wait_for_selector("#fresh[data-state=stale]")
        assert asked == []
        found.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
        found.wait_for_selector("#fresh[data-state=live]")


@pytest.mark.ci
def test_a_day(browser: Any, shown: MadeUp) -> None:
    """What is kept and drawn of many hours is what is kept of five minutes, whatever names come and go."""
    with looking(browser, shown.url) as found:
        young, old = (found.evaluate(_AGED, seconds) for seconds in (400, 800))
        for _, points, states, _ in (young, old):
            assert points <= 301
            assert states <= 61
        assert old[0] == young[0]
        # What the relay says meanwhile may take a few rows away, or bring them.
        assert abs(old[3] - young[3]) < 100


# What can be ordered


def ask(found: Any, button: str, verb: str) -> None:
    """Press a button, and say that it is meant."""
    found.click(button)
    found.wait_for_selector("dialog[open]")
    found.click(f"dialog button:has-text('{verb}')")
    found.wait_for_selector("dialog:not([open])", state="attached")


def test_orders_reach_a_relay(browser: Any, tmp_path: Path) -> None:
    """A real one: pause and resume a broker, end a session, drain, reload, each once it is said to be meant."""
    with served(tmp_path, 'uri = "failover:(memory:)"') as running:
        client, other = Connection.to(running.port), Connection.to(running.port)
        client.connect(login="<b>me</b>")
        other.connect(login="other")
        with looking(browser, f"{running.admin.url}/") as found:
            state = "#brokers tbody tr:not(.group) .state"
            until(found, "() => document.querySelectorAll('#session-rows tbody tr').length === 2")
            found.click("#brokers button:has-text('Pause')")
            found.press("dialog", "Escape")
            assert text(found, state) == "up"
            ask(found, "#brokers button:has-text('Pause')", "Pause")
            found.wait_for_selector(f"{state}:has-text('paused')")
            assert "memory: is paused" in text(found, "#notice")
            ask(found, "#brokers button:has-text('Resume')", "Resume")
            found.wait_for_selector(f"{state}:not(:has-text('paused'))")
            ask(found, "#session-rows tr:has-text('<b>me</b>') button", "End")
            assert b"message:the session was ended" in client.frame()
            until(found, "() => document.querySelectorAll('#session-rows tbody tr').length === 1")
            assert logins(found) == ["other"]
            ask(found, "#orders button:has-text('Drain')", "Drain")
            found.wait_for_selector("#state.warn:has-text('draining')")
            assert found.title() == "draining: stomprelay"
            ask(found, "#orders button:has-text('End draining')", "End draining")
            found.wait_for_selector("#state.good:has-text('running')")
            ask(found, "#orders button:has-text('Reload')", "Reload")
            until(
                found, "() => document.querySelector('#notice').innerText === 'Read anew: nothing changed.'"
            )
        client.close()
        other.close()


def test_a_move_goes_on_and_back(browser: Any, tmp_path: Path) -> None:
    """Its phase, who has followed, and who stays at the old broker, with the new one's words."""
    with ScriptedBroker() as new:
        upstreams = f"""uri = "failover:(memory:)"
[upstream.new]
uri = "failover:({new.uri})"
[move.orders]
prefix = "/queue/"
to = "new"
"""
        more = f'moves_file = "{tmp_path}/moves.json"'
        with served(tmp_path, upstreams, more=more) as running:
            client = Talker.at(running.port)
            with looking(browser, f"{running.admin.url}/") as found:
                assert "prefix /queue/, from main to new" in text(found, "#moves")
                assert text(found, "#moves .state") == "has not begun"
                assert found.locator("#moves button:has-text('Back')").count() == 0
                for phase in ("shadow", "both"):
                    ask(found, "#moves button:has-text('Next')", "Next")
                    found.wait_for_selector(f"#moves [aria-current=step]:has-text('{phase}')")
                client.tell("SUBSCRIBE", destination="/queue/a", id="1")
                refusing = new.accept()
                refusing.frame()
                refusing.write(b"ERROR\nmessage:Bad CONNECT\n\nwho <b>is</b> that?\n\0")
                found.wait_for_selector("#staying:has-text('ERROR: Bad CONNECT: who <b>is</b> that?')")
                assert text(found, "#moves .state") == "not all have followed"
                assert "0 waiting, 1 staying, 0 older" in text(found, "#moves")
                ask(found, "#moves button:has-text('Next')", "Next")
                found.wait_for_selector(
                    "#notice.alarmed:has-text('Not done: not all sessions have followed')"
                )
                assert "409" in found.complaints.pop()
                ask(found, "#moves button:has-text('Back')", "Back")
                found.wait_for_selector("#moves [aria-current=step]:has-text('shadow')")
            client.leave()


def test_a_move_that_is_stopped(browser: Any, shown: MadeUp) -> None:
    """The page says why, and has no button for the next phase."""
    with looking(browser, shown.url) as found:
        row = "#moves tr:has-text('prices')"
        assert text(found, f"{row} .state") == "stopped"
        assert "it answered ERROR: \\u{202e}gnp.exe" in text(found, row)
        assert found.locator(f"{row} button").all_inner_texts() == ["Back"]
        assert found.locator("#moves tr:has-text('orders') button").all_inner_texts() == ["Back", "Next"]
        assert HOSTILE in text(found, "#staying")


@pytest.mark.ci
def test_how_long_sessions_may_take(browser: Any, tmp_path: Path) -> None:
    """The seconds go with the order; a number that is none is not sent; nothing is what the upstream has."""
    with made_up(tmp_path) as running, looking(browser, running.url) as found:
        found.click("#brokers tr:has-text('192.0.2.1') button")
        found.fill("#within", "100000")
        found.click("#do")
        assert found.locator("dialog").evaluate("dialog => dialog.open")
        found.fill("#within", "7.5")
        found.click("#do")
        running.child.wait_for_output(r"^paused tcp://192\.0\.2\.1:61613 7\.5$")
        ask(found, "#brokers tr:has-text('192.0.2.2') button", "Pause")
        running.child.wait_for_output(r"^paused tcp://192\.0\.2\.2:61613 None$")


@pytest.mark.ci
def test_reading_the_configuration_anew(browser: Any, shown: MadeUp) -> None:
    """What became of it is told: what changed, what takes a restart, or why it was not done."""
    changed = {"changed": ["listener.main", "log_level"], "restart": ["workers"]}
    error = "r.toml: log_level: must be a string"
    answers = [
        (200, changed, "Read anew: listener.main, log_level. It takes a restart for workers."),
        (200, {"changed": [], "restart": []}, "Read anew: nothing changed."),
        (409, {"error": error}, f"Not done: {error}"),
    ]

    def reload(route: Any) -> None:
        status, said, _ = left[0]
        route.fulfill(status=status, json=said)

    with page(browser) as found:
        found.route("**/reload", reload)
        found.goto(shown.url)
        for at, (*_, told) in enumerate(answers):
            left = answers[at:]
            ask(found, "#orders button:has-text('Reload')", "Reload")
            until(found, "(told) => document.querySelector('#notice').innerText === told", told)
        # None may be under way when the page is closed.
        found.unroute_all(behavior="wait")


@pytest.mark.ci
def test_an_order_that_is_refused(browser: Any, tmp_path: Path) -> None:
    """The page says why: here the session is gone."""
    with made_up(tmp_path) as running, page(browser) as found:
        found.goto(running.url)
        found.wait_for_selector("#session-rows tbody tr:nth-child(5)")
        found.check("#hold")
        button = "#session-rows tbody tr:nth-child(5) button"
        found.click(button)
        request = urllib.request.Request(
            f"{running.url}sessions/relay-0a1b2c3d-5/kill", b"{}", {"content-type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=30).close()
        found.click("#do")
        found.wait_for_selector("#notice.alarmed:has-text('Not done: there is no session')")


# Who looks


@pytest.mark.ci
def test_on_a_phone(browser: Any, shown: MadeUp) -> None:
    """Nothing sticks out sideways, whatever is in it; each figure has its heading beside it; rows can be sorted."""
    with looking(browser, shown.url, viewport={"width": PHONE, "height": 844}) as found:
        found.locator("details summary").click()
        until(found, "(name) => document.querySelector('#destinations').textContent.includes(name)", HOSTILE)
        assert found.evaluate("document.documentElement.scrollWidth") <= PHONE
        assert found.evaluate(OUTSIDE) == []
        labels = found.eval_on_selector_all(
            "tbody td",
            "all => all.filter((each) => each.textContent && !each.querySelector('button')"
            " && !each.dataset.label).length",
        )
        assert labels == 0
        found.select_option("#sort", "-session")
        shows(found, 10_000, "1 to 25 of 10,000")
        found.click("#brokers button >> nth=0")
        box = found.locator("dialog").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE


@pytest.mark.ci
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser: Any, shown: MadeUp, scheme: str) -> None:
    """Every word can be read, by day and by night (WCAG AA), also while figures are old."""
    with looking(browser, shown.url, color_scheme=scheme) as found:
        background = found.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", background))) < 384) is (scheme == "dark")
        found.locator("details summary").click()
        assert found.evaluate(CONTRAST) == []
        found.evaluate("fresh = performance.now() - 3000; asking = true; watch()")
        assert found.locator("#stale").is_visible()
        assert found.evaluate(CONTRAST) == []


@pytest.mark.ci
def test_by_keyboard(browser: Any, tmp_path: Path) -> None:
    """Each button is reached and seen to be, a question is answered and left, and the place is found again."""
    with made_up(tmp_path) as running, looking(browser, running.url) as found:
        focused = (
            "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
        )
        for reached in ("To the sessions", "Reload", "Drain"):
            found.keyboard.press("Tab")
            assert found.evaluate(focused) == reached
        found.keyboard.press("Tab")
        assert found.evaluate(focused) == "Pause tcp://192.0.2.1:61613"
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert found.evaluate(outline) == "solid"
        found.keyboard.press("Enter")
        found.wait_for_selector("dialog[open]")
        assert found.evaluate(focused) == "Cancel"
        found.keyboard.press("Escape")
        found.wait_for_selector("dialog:not([open])", state="attached")
        assert found.evaluate(focused) == "Pause tcp://192.0.2.1:61613"
        # The table is drawn anew meanwhile, and the button is the same.
        seen = found.evaluate("fresh")
        until(found, "(seen) => fresh > seen", seen)
        found.keyboard.press("Enter")
        found.wait_for_selector("dialog[open]")
        found.keyboard.press("Tab")
        found.keyboard.press("Enter")
        running.child.wait_for_output(r"^paused tcp://192\.0\.2\.1:61613 None$")
        found.focus("#session-rows thead button >> nth=0")
        found.keyboard.press("Space")
        shows(found, 10_000, "1 to 50 of 10,000")
        sorted_by = found.locator("#session-rows th[aria-sort]")
        assert (sorted_by.count(), sorted_by.get_attribute("aria-sort")) == (1, "descending")


def test_without_javascript(browser: Any, shown: MadeUp) -> None:
    """It says which commands tell the same."""
    with page(browser, java_script_enabled=False) as found:
        found.goto(shown.url)
        assert "stomprelay sessions" in text(found, "noscript")


@pytest.mark.ci
def test_roles(browser: Any, shown: MadeUp) -> None:
    """Tables stay tables for who hears them, also where they are laid out as cards; what changes state is told."""
    with looking(browser, shown.url, viewport={"width": PHONE, "height": 844}) as found:
        assert found.get_by_role("table", name="Sessions", exact=True).get_by_role("row").count() == 26
        assert found.get_by_role("button", name="End relay-0a1b2c3d-7", exact=True).count() == 1
        assert found.locator("#stale[role=alert]").count() == 1
        assert found.locator("#notice[role=status], #state[role=status]").count() == 2
