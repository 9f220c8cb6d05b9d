"""What clients did, from the tables of the pipeline. `stomprelay-pipeline query` adds frames up, by Spark, in a process
of its own: what comes back has a row for each kind of frame of a client, and not for each frame.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from stomprelay.cli.move.precheck.journal import UNKNOWN, wild
from stomprelay.cli.move.precheck.pair import Pair
from stomprelay.cli.move.precheck.report import Extra
from stomprelay.config import ConfigError
from stomprelay.relay.model.usage import Judge, session_of
from stomprelay.wire.names import ACK, ACK_HEADER, DESTINATION, ID, NACK, SEND, SUBSCRIBE, UNSUBSCRIBE

SOURCE: Final = "the tables"
_CLIENT_ID: Final = b"client-id"
_HOST: Final = b"host"
_JUDGED: Final = {each.decode(): each for each in (SEND, SUBSCRIBE, UNSUBSCRIBE, ACK, NACK)}

# An aborted SEND was never there. A subscription ends with its UNSUBSCRIBE, or with its session. What a NACK does
# depends on the subscriptions, so the first of each kind stands among them.
_SQL: Final = """
WITH said AS (
  SELECT listener, session, client, command, ns, number, headers,
    map_filter(headers, (name, value) -> name IN ({known})) AS known
  FROM frames WHERE side = 'client' AND {period}
),
sends AS (
  SELECT listener, client, command,
    to_json(transform_values(known, (name, value) -> IF(name IN ({placed}), value, '1'))) AS head, count(*) AS times
  FROM said WHERE command IN ('SEND', 'ACK') GROUP BY listener, client, command, head
),
steps AS (
  SELECT listener, session, client, ns, number, command, to_json(known) AS head, 1 AS times
  FROM said WHERE command IN ('CONNECT', 'STOMP', 'SUBSCRIBE', 'UNSUBSCRIBE')
  UNION ALL
  SELECT listener, session, client, min(ns), min(number), command,
    to_json(map_filter(known, (name, value) -> name IN ({placed}))) AS head, count(*)
  FROM said WHERE command = 'NACK' GROUP BY listener, session, client, command, head
),
subscriptions AS (
  SELECT listener, client, 'SUBSCRIBE' AS command, heads AS head, count(*) AS times FROM (
    SELECT listener, max_by(client, ns) AS client, to_json(transform(
        array_sort(collect_list(struct(ns, number, command, head, times))),
        each -> struct(each.command AS command, each.head AS head, each.times AS times))) AS heads
    FROM steps GROUP BY listener, session
  ) GROUP BY listener, client, heads
),
ends AS (
  SELECT session, max(ns) AS ns FROM frames WHERE event IN ('disconnected', 'vanished') AND {period} GROUP BY session
),
opened AS (
  SELECT * FROM (
    SELECT said.listener, said.session, said.client, said.command, said.headers['id'] AS id,
      said.headers['destination'] AS place, said.headers[{selector}] AS selector, said.ns AS since,
      coalesce(lead(said.ns) OVER (
        PARTITION BY said.session, coalesce(said.headers['id'], said.headers['destination']) ORDER BY said.ns, number
      ), ends.ns, {until}) AS until
    FROM said LEFT JOIN ends ON said.session = ends.session
    WHERE said.command IN ('SUBSCRIBE', 'UNSUBSCRIBE')
  ) WHERE command = 'SUBSCRIBE' AND selector IS NOT NULL
),
aborted AS (
  SELECT DISTINCT session, headers['transaction'] AS name FROM said WHERE command = 'ABORT'
),
sent AS (
  SELECT opened.listener, opened.client, opened.place, count(*) AS times
  FROM opened
  JOIN said ON said.command = 'SEND' AND said.headers['destination'] = opened.place
    AND said.ns >= opened.since AND said.ns < opened.until
  LEFT ANTI JOIN aborted ON aborted.session = said.session AND aborted.name = said.headers['transaction']
  GROUP BY opened.listener, opened.client, opened.place
),
delivered AS (
  SELECT opened.listener, opened.client, opened.place, count(*) AS times
  FROM opened
  JOIN frames ON frames.session = opened.session AND frames.side = 'broker' AND frames.command = 'MESSAGE'
    AND frames.ns >= opened.since AND frames.ns < opened.until AND IF(
      opened.id IS NULL, frames.headers['destination'] = opened.place, frames.headers['subscription'] = opened.id)
  GROUP BY opened.listener, opened.client, opened.place
)
SELECT listener, client, command, head, times FROM sends
UNION ALL SELECT listener, client, command, head, times FROM subscriptions
UNION ALL SELECT listener, client, 'selected', place, 0 FROM opened
UNION ALL SELECT listener, client, 'sent', place, times FROM sent
UNION ALL SELECT listener, client, 'delivered', place, times FROM delivered
"""


def sql(judge: Judge, since: int | None, until: int | None) -> str:
    """Return the query over the table `frames`. Times are in ns since 1970; `until` is not included."""
    period = [f"ns >= {since}"] * (since is not None) + [f"ns < {until}"] * (until is not None)
    known = {ID, ACK_HEADER, _CLIENT_ID, _HOST, *judge.known}
    return _SQL.format(
        known=", ".join(map(_quoted, sorted(known))),
        placed=", ".join(map(_quoted, sorted(judge.valued))),
        period=" AND ".join(period) or "true",
        until=(1 << 63) - 1 if until is None else until,
        # Without a header nothing is selected.
        selector=_quoted(judge.selector or b""),
    )


def _quoted(name: bytes) -> str:
    text = name.decode("utf-8", "replace").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def add(rows: Iterable[dict[str, Any]], pair: Pair) -> None:
    """Add the rows of the query to the report."""
    judge, concerns, report = pair.judge, pair.concerns, pair.report
    frames = 0
    clients: set[str] = set()
    extras: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        client, command = row["client"] or "", row["command"]
        if command in ("selected", "sent", "delivered"):
            if concerns(row["listener"], row["head"].encode()):
                counts = extras.setdefault((client, row["head"]), {"sent": 0, "delivered": 0})
                if command in counts:
                    counts[command] += row["times"]
            continue
        if not concerns(row["listener"], None):
            continue
        said = (
            _sequence(row["head"])
            if command == "SUBSCRIBE"
            else [(_JUDGED[command], _headers(row["head"]), 1)]
        )
        session = session_of(b"judged", UNKNOWN)
        for each, headers, many in said:
            first = dict(reversed(headers))
            if each is None:
                session = session_of(b"judged", first.get(_CLIENT_ID, b""))
                report.add(
                    client,
                    report.connects.opened("", first.get(_HOST, b""), b""),
                    SOURCE,
                    row["times"] * many,
                )
            elif concerns(row["listener"], first.get(DESTINATION)):
                times = row["times"] * many
                frames += times
                clients.add(client)
                report.add(client, judge.judge(each, headers, session), SOURCE, times)
    for (client, place), counts in extras.items():
        # The query compares no wildcards.
        if not wild(place.encode()):
            report.add_extra(Extra(client, place, **counts))
    report.saw(SOURCE, frames, clients)


def _headers(head: str | None) -> list[tuple[bytes, bytes]]:
    found = json.loads(head or "{}")
    return [(name.encode(), value.encode()) for name, value in found.items()]


def _sequence(heads: str) -> Iterator[tuple[bytes | None, list[tuple[bytes, bytes]], int]]:
    """Yield the commands and headers of a session's frames, and how often each came; the command of CONNECT is None."""
    for each in json.loads(heads):
        yield _JUDGED.get(each["command"]), _headers(each["head"]), each["times"]


def read(
    folder: str, since: int | None, until: int | None, judge: Judge, further: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows of the query over the tables in a folder. `further`: options of `stomprelay-pipeline query`.
    Raises `ConfigError` if the query fails.
    """
    command = [sys.executable, "-m", "stomprelay.pipeline.cli", "query", "-", "--format", "json", "--tables"]
    done = subprocess.run(
        [*command, folder, *further],
        input=sql(judge, since, until),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ConfigError(f"--tables: {folder}: the query ended with exit status {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]
