// The dashboard. While the page is visible, it asks for the overview once a second, and for one page of sessions. It
// keeps the last five minutes of the drawn figures, and shows a notice when its figures are old. Texts of clients and
// brokers are only ever put into the page as text.
"use strict";

const OLD = 2000; // ms after which figures are old
const SHARED = 500; // ms that an answer may be old when it arrives: the relay shares one answer for a time
const PATIENCE = 8000; // ms that an answer may take; a worker that is silent delays it by five seconds
const BUSIEST = 25; // destinations that are shown
const SORTED = 10; // seconds after which the destinations are sorted again
const STEP = 5; // seconds between two states of a histogram that are kept
const SHOWN_FOR = 10000; // ms that a notice stays
const COST = 20; // the next request for sessions waits so many times as long as the last answer took

// ---- messages to the user

let noticed = 0;

function notice(text, alarmed = false) {
  $("notice").className = alarmed ? "notice alarmed" : "notice";
  $("notice").hidden = false;
  put($("notice"), text);
  noticed = performance.now();
}

let fresh = null; // when the shown figures were requested, by the browser's clock; null before the first figures
let freshAt = 0; // the same moment by the relay's clock
let trouble = "";

function watch() {
  const age = fresh === null ? null : performance.now() - fresh;
  const stale = age === null ? trouble !== "" : age > OLD;
  document.body.classList.toggle("stale", stale);
  $("fresh").dataset.state = stale ? "stale" : age === null ? "waiting" : "live";
  if (age !== null) put($("fresh-text"), stale ? `stale since ${clock(freshAt)}` : `live, ${clock(freshAt)}`);
  const why = trouble || "the relay has not answered yet";
  const since = age === null ? "Nothing is known yet" : `Stale since ${clock(freshAt)}`;
  if (stale) put($("stale"), `${since}: ${why}. What is shown may be wrong; it is asked for again and again.`);
  $("stale").hidden = !stale;
  if (stale) document.title = "stale: stomprelay";
  if (!$("notice").hidden && performance.now() - noticed > SHOWN_FOR) $("notice").hidden = true;
  const listed = sessions.asked === null ? null : performance.now() - sessions.asked;
  const how = $("hold").checked ? "held still, " : "";
  put($("sessions-age"), listed === null || listed <= OLD ? how.slice(0, -2) : `${how}as of ${duration(listed / 1000)} ago`);
}

async function answer(path, options = {}) {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE), ...options });
  if (response.ok) return response.json();
  if (response.status === 401) throw new Error("the token is asked for: load this page anew");
  const said = await response.json().catch(() => ({}));
  throw new Error(said.error ?? `the relay answered ${response.status}`);
}

const reason = (error) => (error.name === "TimeoutError" ? "the relay does not answer in time" : error instanceof TypeError ? "the relay does not answer" : error.message);

// ---- orders

async function order(path, body, done) {
  try {
    const said = await answer(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    notice(typeof done === "string" ? done : done(said));
  } catch (error) {
    notice(`Not done: ${reason(error)}`, true);
  }
  ask();
  sessions.ask();
}

// Ask the user to confirm an order; resolves with the typed seconds, or with null if the user cancels.
function meant(title, text, verb, timed = false) {
  const dialog = $("confirm");
  put($("confirm-title"), title);
  put($("confirm-text"), text);
  put($("do"), verb);
  $("within-label").hidden = !timed;
  $("within").value = "";
  return new Promise((resolve) => {
    let found = null;
    $("do").onclick = () => { if ($("within").reportValidity()) { found = $("within").value; dialog.close(); } };
    $("cancel").onclick = () => dialog.close();
    dialog.onclose = () => resolve(found);
    dialog.showModal();
    $("cancel").focus();
  });
}

async function pause(broker) {
  const text = `${broker.uri} gets no session any more. Those that it has (${count(broker.sessions)}) go to another broker of their group, or wait where there is none, until it is resumed.`;
  const within = await meant("Pause this broker?", text, "Pause", true);
  if (within !== null) await order("brokers/pause", { broker: broker.uri, ...(within === "" ? {} : { within: Number(within) }) }, `${broker.uri} is paused.`);
}

async function resume(broker) {
  const within = await meant("Resume this broker?", `${broker.uri} gets sessions again, and those that wait for it go on.`, "Resume");
  if (within !== null) await order("brokers/resume", { broker: broker.uri }, `${broker.uri} is resumed.`);
}

// What each phase of a move means, in their order.
const PHASES = {
  off: "everything is at the old broker",
  shadow: "the new broker gets a copy of each SEND",
  both: "subscriptions are at both brokers, SENDs go to the old one",
  new: "SENDs go to the new broker, subscriptions are at both",
  done: "everything is at the new broker",
};

async function move(row, way, phase) {
  const text = `In the phase ${phase}, ${PHASES[phase]}. Sessions follow at once, and no client is disconnected.`;
  const within = await meant(`${way === "next" ? "Move" : "Move back"} ${row.name} to ${phase}?`, text, way === "next" ? "Next" : "Back");
  if (within !== null) await order("moves", { move: row.name, phase: way }, `${row.name} is in the phase ${phase}.`);
}

async function kill(row) {
  const who = row.login === null ? row.client : `${row.login} at ${row.client}`;
  const text = `${row.session} of ${who} gets an ERROR and is closed. What has no receipt yet (${count(row.unconfirmed)}) may be lost.`;
  const within = await meant("End this session?", text, "End");
  if (within !== null) await order(`sessions/${encodeURIComponent(row.session)}/kill`, {}, `${row.session} is ended.`);
}

// Orders to the whole relay, by path: shown if the relay accepts the order, and if `when` returns true.
const ORDERS = {
  "/reload": { text: "Reload", title: "Read the configuration anew?", when: (data) => !data.stopping,
    note: "What is wrong in it is told, and then nothing changes. Sessions go on.",
    done: ({ changed, restart }) => `Read anew: ${changed.join(", ") || "nothing changed"}.${restart.length ? ` It takes a restart for ${restart.join(", ")}.` : ""}` },
  "/drain": { text: "Drain", title: "Let no new client in?", when: (data) => !data.stopping && !data.draining,
    note: "Sessions go on. The relay says that it is not ready, so that clients are sent elsewhere.", done: "No new client is let in." },
  "/drain/cancel": { text: "End draining", title: "Let clients in again?", when: (data) => !data.stopping && data.draining,
    note: "The relay is ready again for new clients.", done: "Clients are let in again." },
};

const buttons = new Map();

function showOrders(data) {
  $("console").hidden = !data.orders.includes("/console/open");
  for (const [path, { text, title, note, when, done }] of Object.entries(ORDERS)) {
    if (!data.orders.includes(path)) continue;
    if (!buttons.has(path)) {
      const button = make("button", { type: "button" }, text);
      button.onclick = async () => { if ((await meant(title, note, text)) !== null) await order(path.slice(1), {}, done); };
      buttons.set(path, button);
      $("orders").append(button);
    }
    buttons.get(path).hidden = !when(data);
  }
}

// ---- the overview

const frameRate = (value) => `${rough(value)}/s`;
const byteRate = (value) => `${bytes(value)}/s`;
const TONES = { up: "good", down: "bad", out: "bad", paused: "warn", unknown: "" };
const WORDS = { down: "cannot be reached", out: "left out for a while, for it failed", paused: "by an operator", unknown: "nobody asked for it yet" };

const tables = {
  brokers: new Table($("brokers"), [["Broker", "noted", "long"], ["State", "state", "words"], ["Sessions", "text", "number"], ["To the broker", "traffic", "rate number"], ["From the broker", "traffic", "rate number"], ["Failovers", "text", "number"], ["Failures in a row", "text", "number"], ["", "button", "number"]], "No broker is configured."),
  listeners: new Table($("listeners"), [["Listener", "noted", "long"], ["Sessions", "text", "number"], ["From clients", "traffic", "rate number"], ["From brokers", "traffic", "rate number"], ["Sessions ever", "text", "number"], ["Failovers", "text", "number"], ["Errors to clients", "text", "number"], ["Clients refused", "text", "number"]], "No listener."),
  destinations: new Table($("destinations"), [["Destination", "text", "long"], ["SEND", "traffic", "rate number"], ["MESSAGE", "traffic", "rate number"], ["SENDs ever", "text", "number"], ["MESSAGEs ever", "text", "number"]], "Nothing was sent yet."),
  times: new Table($("times"), [["What", "noted", "long"], ["Half within", "text", "number"], ["95 % within", "text", "number"], ["99 % within", "text", "number"], ["Counted", "text", "number"]], "Nothing was measured yet."),
  moves: new Table($("moves"), [["Move", "noted", "long"], ["Phase", "phases", ""], ["State", "state", "words"], ["Sessions that followed", "share", "share"], ["Copied", "text", "number"], ["Failed", "text", "number"], ["", "button", "number"], ["", "button", "number"]], ""),
  staying: new Table($("staying"), [["Session", "text", "fixed"], ["Move", "text", "words"], ["Why", "text", "long"]], ""),
  outages: new Table($("outages"), [["Broker", "noted", "long"], ["State", "state", ""], ["Began", "text", ""], ["Lasted", "text", "number"], ["Sessions lost", "text", "number"], ["Went on elsewhere", "text", "number"], ["Waited for it", "text", "number"], ["Failed attempts", "text", "number"], ["Why", "text", "words"]], "None since the relay was started."),
  journal: new Table($("journal"), [["Directory", "text", "long"], ["State", "state", ""], ["Frames written", "traffic", "rate number"], ["Bytes waiting", "text", "number"], ["Frames left out", "text", "number"], ["Write errors", "text", "number"]], ""),
  workers: new Table($("workers"), [["Worker", "text", ""], ["State", "state", ""], ["Process", "text", "number"], ["Sessions", "text", "number"], ["Started anew", "text", "number"]], ""),
  counters: new Table($("counters"), [["Counter", "text", "long"], ["All listeners", "text", "number"], ["Each", "text", "words"]], "Nothing yet."),
};

const tiles = new Map();

function tile(name, { figure, unit = "", below = "", alarmed = false, found = null, way = "in", spell = count }) {
  if (!tiles.has(name)) {
    const made = make("article", { class: "tile" }, make("h3", {}, name), make("div", { class: "figure" }, make("span"), make("small")), make("p"));
    if (found !== null) made.append(sparkline(way));
    tiles.set(name, made);
    $("tiles").append(made);
  }
  const [, head, text, svg] = tiles.get(name).children;
  put(head.firstChild, figure);
  put(head.lastChild, unit);
  put(text, below);
  tiles.get(name).classList.toggle("alarm", alarmed);
  if (found !== null) draw(svg, found, spell);
}

function showTiles(data) {
  const total = (name) => sum(data.listeners, (each) => each.counters[name]);
  const rates = Object.fromEntries(["client_frames", "client_bytes", "broker_frames", "broker_bytes"].map((name) => [name, rate(`relay ${name}`, data.time, total(name))]));
  const figure = (name, spell) => (now(rates[name]) === null ? "–" : spell(now(rates[name])));
  tile("Sessions", { figure: count(data.sessions), below: `${plural(data.connections, "connection")}${data.memory.limit === null ? "" : `, ${bytes(data.memory.kept)} of ${bytes(data.memory.limit)} kept`}`, found: gauge("relay sessions", data.time, data.sessions) });
  tile("Frames from clients", { figure: figure("client_frames", rough), unit: "/s", below: figure("client_bytes", byteRate), found: rates.client_frames, spell: frameRate });
  tile("Frames from brokers", { figure: figure("broker_frames", rough), unit: "/s", below: figure("broker_bytes", byteRate), found: rates.broker_frames, way: "out", spell: frameRate });
  const up = data.brokers.filter((each) => each.state === "up").length;
  const bad = data.brokers.filter((each) => each.state === "down" || each.state === "out").length;
  const failovers = plural(total("failovers"), "failover");
  tile("Brokers up", { figure: count(up), unit: `of ${count(data.brokers.length)}`, below: bad ? `${count(bad)} down; ${failovers}` : failovers, alarmed: bad > 0 });
  const lost = total("possibly_lost");
  const errors = total("errors_sent") + total("errors_passed");
  tile("Possibly lost", { figure: count(lost), unit: lost === 1 ? "message" : "messages", below: `${plural(errors, "error")} to clients`, alarmed: lost > 0 });
  document.title = `${bad ? `${bad} down: ` : ""}${data.stopping ? "stopping: " : data.draining ? "draining: " : ""}stomprelay`;
}

// The cells for the traffic of brokers: both directions, and failovers.
function carried(name, data, brokers) {
  const one = (field) => rate(`${name} ${field}`, data.time, sum(brokers, (each) => each.tally[field]));
  return [[one("sent_frames"), one("sent_bytes"), "in"], [one("received_frames"), one("received_bytes"), "out"], count(sum(brokers, (each) => each.tally.failovers))];
}

function showBrokers(data) {
  const can = (path) => data.orders.includes(path);
  const rows = [];
  for (const upstream of new Set(data.brokers.map((each) => each.upstream))) {
    const own = data.brokers.filter((each) => each.upstream === upstream);
    const up = own.filter((each) => each.state === "up").length;
    const groups = new Set(own.map((each) => each.group)).size;
    const state = up ? [`${up} of ${own.length} up`, up === own.length ? "good" : "warn"] : own.every((each) => each.state === "unknown") ? ["unknown", ""] : ["none up", "bad"];
    rows.push({ key: `upstream ${upstream}`, group: true, cells: [[upstream, groups > 1 ? `upstream of ${groups} groups` : "upstream"], [...state, ""], count(sum(own, (each) => each.sessions)), ...carried(`upstream ${upstream}`, data, own), "", null] });
    const seen = new Map();
    for (const each of own) {
      const name = JSON.stringify([upstream, each.group, each.uri]);
      seen.set(name, (seen.get(name) ?? 0) + 1);
      const act = each.paused ? (can("/brokers/resume") ? { text: "Resume", what: each.uri, act: () => resume(each) } : null) : can("/brokers/pause") ? { text: "Pause", what: each.uri, act: () => pause(each) } : null;
      const note = [each.why || WORDS[each.state], each.waiting ? `about ${count(each.waiting)} may wait there` : ""].filter(Boolean).join("; ");
      rows.push({ key: `${name} ${seen.get(name)}`, cells: [[each.uri, groups > 1 ? `group ${each.group}` : ""], [each.state, each.state === "up" && each.why ? "warn" : TONES[each.state], note], count(each.sessions), ...carried(`broker ${name} ${seen.get(name)}`, data, [each]), count(each.failures), act] });
    }
  }
  tables.brokers.show(rows);
}

function showListeners(data) {
  tables.listeners.show(data.listeners.map((each) => {
    const counters = each.counters;
    const one = (name) => rate(`listener ${each.name} ${name}`, data.time, counters[name]);
    return { key: each.name, cells: [[each.name, each.endpoint], count(each.sessions),
      [one("client_frames"), one("client_bytes"), "in"], [one("broker_frames"), one("broker_bytes"), "out"],
      count(counters.sessions_opened), count(counters.failovers), count(counters.errors_sent + counters.errors_passed), count(counters.clients_refused)] };
  }));
}

let busiest = { at: 0, names: [] }; // the destinations that are shown, and when they were sorted

function showDestinations(data) {
  const rows = new Map(data.destinations.map((each) => {
    const name = JSON.stringify(each.destination);
    const one = (field) => rate(`destination ${name} ${field}`, data.time, each[field]);
    const [sends, messages] = [one("sends"), one("messages")];
    const lately = sum([...sends.points, ...messages.points], ([, value]) => value ?? 0);
    return [name, { key: name, lately, cells: [each.destination ?? "all others", [sends, one("send_bytes"), "in"], [messages, one("message_bytes"), "out"], count(each.sends), count(each.messages)] }];
  }));
  if (Math.abs(data.time - busiest.at) > SORTED || busiest.names.length < Math.min(BUSIEST, rows.size)) {
    const names = [...rows.values()].sort((one, other) => other.lately - one.lately).map((each) => each.key);
    busiest = { at: data.time, names: names.slice(0, BUSIEST) };
  }
  tables.destinations.show(busiest.names.flatMap((name) => rows.get(name) ?? []));
}

// Return within how many seconds this share of the counted events was over, as Prometheus' histogram_quantile does.
function within(share, counts, bounds) {
  let left = share * sum(counts, (each) => each);
  for (const [at, each] of counts.entries()) {
    if (at === bounds.length) break;
    const from = at ? bounds[at - 1] : 0;
    if (each && left <= each) return seconds(from + ((bounds[at] - from) * left) / each);
    left -= each;
  }
  return `over ${seconds(bounds.at(-1))}`;
}

const seconds = (value) => (value < 1 ? `${tenths.format(value * 1000)} ms` : `${tenths.format(value)} s`);

function showTimes(data) {
  tables.times.show(data.times.flatMap((each) => {
    const name = `${each.name} ${each.label}`;
    const found = history(`time ${name}`);
    const states = (found.states ??= []);
    if (!states.length || data.time - states.at(-1).time >= STEP) states.push({ time: data.time, counts: each.counts });
    while (states.length > KEPT / STEP + 1 || states[0].time < data.time - KEPT) states.shift();
    const lately = each.counts.map((value, at) => value - (states[0]?.counts[at] ?? 0));
    // A page that was just loaded has no history: then use all counts since the start.
    const counts = lately.some((value) => value) ? lately : each.counts;
    const note = counts === lately ? `${each.by} ${each.label}` : `${each.by} ${each.label}, since the start`;
    return [{ key: name, cells: [[each.meaning, note], ...[0.5, 0.95, 0.99].map((share) => within(share, counts, data.bounds)), count(sum(counts, (value) => value))] }];
  }));
}

CELLS.phases = (cell, [phase, note]) => {
  if (!cell.firstChild) cell.append(make("div", {}, make("ol", { class: "phases" }, ...Object.keys(PHASES).map((each) => make("li", {}, each))), make("small")));
  const at = Object.keys(PHASES).indexOf(phase);
  [...cell.firstChild.firstChild.children].forEach((each, number) => {
    each.className = number < at ? "past" : "";
    if (number === at) each.setAttribute("aria-current", "step");
    else each.removeAttribute("aria-current");
  });
  put(cell.firstChild.lastChild, note);
};

// A bar with a part for each of some numbers, and the numbers in words.
CELLS.share = (cell, [parts, text, note]) => {
  if (!cell.firstChild) cell.append(make("div", {}, make("svg", { class: "parts", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }), make("span"), make("small")));
  const [bar, words, small] = cell.firstChild.children;
  const all = sum(parts, ([, value]) => value);
  let from = 0;
  bar.replaceChildren(...parts.filter(([, value]) => value).map(([name, value]) => {
    const to = from + (100 * value) / all;
    const made = make("path", { class: name, d: `M${from.toFixed(2)} 0H${to.toFixed(2)}V6H${from.toFixed(2)}Z` });
    from = to;
    return made;
  }));
  put(words, text);
  put(small, note);
};

function showMoves(data) {
  const phases = Object.keys(PHASES);
  const may = data.orders.includes("/moves");
  $("moves-section").hidden = !data.moves.length;
  tables.moves.show(data.moves.map((each) => {
    const left = ["waiting", "staying", "older"].filter((name) => each[name]);
    const state = each.stopped ? ["stopped", "bad", `${each.stopped}; go back first`]
      : left.length ? ["not all have followed", "warn", PHASES[each.phase]]
      : each.away.length ? ["durable subscribers are away", "warn", each.away.join("; ")]
      : [each.phase === "off" ? "has not begun" : "all have followed", each.phase === "off" ? "" : "good", PHASES[each.phase]];
    const at = phases.indexOf(each.phase);
    const button = (text, way, phase) => (may && phase ? { text, what: `${each.name} to ${phase}`, act: () => move(each, way, phase) } : null);
    const since = each.since ? `for ${duration(data.time - each.since)}, since ${new Date(each.since * 1000).toLocaleString("en-GB")}` : "";
    const parts = ["followed", "waiting", "staying", "older"].map((name) => [name, each[name]]);
    return { key: each.name, cells: [[each.name, `${each.pattern}, from ${each.old} to ${each.to}`], [each.phase, since], state,
      [parts, `${count(each.followed)} of ${count(each.sessions)}`, `${count(each.waiting)} waiting, ${count(each.staying)} staying, ${count(each.older)} older`],
      count(each.copied), count(each.failed), button("Back", "back", phases[at - 1]), button("Next", "next", each.stopped ? null : phases[at + 1])] };
  }));
  const staying = data.moves.flatMap((each) => each.stays.map(([session, why]) => ({ key: JSON.stringify([each.name, session]), cells: [session, each.name, why] })));
  $("staying-section").hidden = !staying.length;
  tables.staying.show(staying);
}

let known = null; // the outages of the last overview

function showOutages(data) {
  const names = data.outages.map((each) => JSON.stringify([each.upstream, each.broker, each.began]));
  const rows = data.outages.map((each, at) => ({ key: names[at], cells: [[each.broker, `upstream ${each.upstream}`],
    each.ended === null ? [each.down ? "is down" : "loses sessions", "bad"] : ["over", ""], clock(each.began), duration((each.ended ?? data.time) - each.began),
    count(each.lost), count(each.elsewhere), count(each.waited), count(each.failed), each.reason] }));
  tables.outages.show(rows.reverse());
  for (const [at, each] of data.outages.entries()) {
    if (known !== null && !known.has(names[at]) && each.ended === null) notice(`${each.broker} of upstream ${each.upstream} ${each.down ? "is down" : "loses sessions"}: ${each.reason}`, true);
  }
  known = new Set(names);
}

function showRest(data) {
  const { journal, workers } = data;
  $("journal-section").hidden = journal === null;
  if (journal !== null) {
    const one = (name) => rate(`journal ${name}`, data.time, journal.counts[name]);
    tables.journal.show([{ key: "journal", cells: [journal.directory, [journal.state, journal.trouble || journal.stuck ? "bad" : "good"], [one("frames"), one("bytes"), "in"], bytes(journal.waiting), count(journal.counts.dropped_frames), count(journal.counts.write_errors)] }]);
  }
  $("workers-section").hidden = !workers.length;
  tables.workers.show(workers.map((each) => {
    const late = each.state === "serves" && data.time - each.seen > OLD / 1000;
    const note = late ? `does not answer; its figures are ${each.seen ? `from ${clock(each.seen)}` : "missing"}` : "";
    return { key: String(each.number), cells: [each.number, [each.state, late ? "bad" : each.state === "serves" ? "good" : "warn", note], each.process, count(each.sessions), count(each.restarts)] };
  }));
  const names = Object.keys(data.listeners[0]?.counters ?? {});
  const counted = names.map((name) => [name, data.listeners.filter((each) => each.counters[name])]).filter(([, found]) => found.length);
  tables.counters.show(counted.map(([name, found]) => ({ key: name, cells: [name.replaceAll("_", " "), count(sum(found, (each) => each.counters[name])), found.map((each) => `${each.name}: ${count(each.counters[name])}`).join(", ")] })));
}

let shown = null; // the last overview

function show(data) {
  if (shown !== null && data.started !== shown.started) {
    histories = new Map();
    known = null;
    notice(data.version === shown.version ? "The relay was started anew." : `The relay was started anew, and is version ${data.version} now: load this page anew.`);
  }
  told = new Map();
  put($("version"), data.version);
  const state = data.stopping ? "stopping" : data.draining ? "draining" : "running";
  put($("state"), state);
  $("state").className = `state ${state === "running" ? "good" : "warn"}`;
  put($("running"), `for ${duration(data.time - data.started)}`);
  showOrders(data);
  showTiles(data);
  showBrokers(data);
  showMoves(data);
  showListeners(data);
  showDestinations(data);
  showTimes(data);
  showOutages(data);
  showRest(data);
  histories = told;
  shown = data;
}

let next = null; // the timer of the next request
let asking = false;

async function ask() {
  clearTimeout(next);
  if (document.hidden || asking) return;
  asking = true;
  const asked = performance.now();
  try {
    const data = await answer("overview");
    show(data);
    [fresh, freshAt, trouble] = [asked - SHARED, data.time, ""];
  } catch (error) {
    trouble = reason(error);
  }
  asking = false;
  watch();
  next = setTimeout(ask, Math.max(0, EVERY - (performance.now() - asked)));
}

// ---- sessions

const SORTS = { session: "Session", login: "Login", client: "Client", listener: "Listener", age: "Age", idle: "Idle", destinations: "Destinations", unconfirmed: "Unconfirmed", unacknowledged: "Unacknowledged", client_bytes: "From client", broker_bytes: "From brokers" };
const WORDY = new Set(["session", "login", "client", "listener"]); // sorted from the first text; all other columns from the largest number

const sessions = {
  sort: "session",
  search: "",
  cursors: [], // of the earlier pages, to go back
  after: "",
  following: null,
  before: 0, // sessions on the earlier pages
  asked: null,
  current: null, // the request that waits for its answer
  timer: null,
  last: new Map(), // the last counts of the shown sessions

  query() {
    const found = new URLSearchParams({ sort: this.sort, limit: $("size").value });
    // Escape each character that has a meaning in a pattern.
    if (this.search) found.set("any", `*${this.search.replace(/[[*?]/g, "[$&]")}*`);
    if (this.after) found.set("after", this.after);
    return found;
  },

  // Start at the first page again, because the user asks for something else.
  restart() {
    this.current?.abort();
    Object.assign(this, { cursors: [], after: "", before: 0, current: null });
    this.ask();
  },

  turn(after, cursors, before) {
    this.current?.abort();
    Object.assign(this, { after, cursors, before, current: null });
    this.ask();
  },

  by(key) {
    this.sort = this.sort === key ? `-${key}` : key;
    this.mark();
    this.restart();
  },

  mark() {
    const key = this.sort.replace(/^-/, "");
    const rising = WORDY.has(key) === !this.sort.startsWith("-");
    listing.columns.forEach(([, , , sorts], at) => {
      if (sorts === key) listing.heads[at].setAttribute("aria-sort", rising ? "ascending" : "descending");
      else listing.heads[at].removeAttribute("aria-sort");
    });
    $("sort").value = this.sort;
  },

  async ask() {
    clearTimeout(this.timer);
    if (document.hidden || this.current !== null) return;
    const asked = performance.now();
    const question = (this.current = new AbortController());
    try {
      const signal = AbortSignal.any([question.signal, AbortSignal.timeout(PATIENCE)]);
      const found = await answer(`sessions?${this.query()}`, { signal });
      if (this.current !== question) return;
      this.show(found);
      this.asked = asked;
    } catch (error) {
      if (this.current !== question) return;
      // The top of the page already shows that the relay is away.
      if (!(error instanceof TypeError)) notice(`No sessions: ${reason(error)}`, true);
    }
    this.current = null;
    const took = performance.now() - asked;
    this.timer = setTimeout(() => this.again(), Math.max(EVERY - took, COST * took));
  },

  again() {
    if ($("hold").checked || $("confirm").open) this.timer = setTimeout(() => this.again(), EVERY);
    else this.ask();
  },

  show(found) {
    const before = this.last;
    this.last = new Map();
    listing.show(found.sessions.map((row) => ({ key: row.session, cells: this.cells(row, before.get(row.session)) })));
    this.following = found.next;
    const all = this.before + found.matching;
    const range = found.sessions.length ? `${count(this.before + 1)} to ${count(this.before + found.sessions.length)} of ${count(all)}` : "none";
    const missing = found.missing.length ? `; ${found.missing.join(" and ")} did not answer` : "";
    put($("range"), `${range}${this.search ? ` found, ${count(found.total)} in all` : ""}${missing}`);
    $("first").disabled = $("previous").disabled = !this.cursors.length;
    $("next").disabled = found.next === null;
  },

  cells(row, last) {
    this.last.set(row.session, row);
    const seconds = last ? row.age - last.age : 0;
    const passed = (name) => [bytes(row[name]), seconds > 0 ? byteRate((row[name] - last[name]) / seconds) : ""];
    const spoken = [...new Set(row.broker_versions.filter(Boolean))].join(", ");
    const version = row.version === null ? "no CONNECT yet" : spoken && spoken !== row.version ? `STOMP ${row.version} to ${spoken}` : `STOMP ${row.version}`;
    const brokers = row.brokers.map((each) => each ?? "searching").join(", ");
    const destinations = [...row.destinations, ...(row.more_destinations ? [`${count(row.more_destinations)} more`] : [])].join(", ");
    const client = row.limited === null ? version : `${version}; waits: ${row.limited}`;
    const sent = row.sent_to.length ? `sends to ${row.sent_to.join(", ")}` : "";
    return [row.session, row.login, [row.client, client], row.listener, brokers, duration(row.age), row.idle === null ? "" : duration(row.idle), [destinations, sent],
      count(row.unconfirmed), count(row.unacknowledged), passed("client_bytes"), passed("broker_bytes"), { text: "End", what: row.session, act: () => kill(row) }];
  },
};

const listing = new Table($("session-rows"), [["Session", "text", "fixed", "session"], ["Login", "text", "words", "login"], ["Client", "noted", "fixed", "client"], ["Listener", "text", "", "listener"], ["Broker", "text", "places"], ["Age", "text", "number", "age"], ["Idle", "text", "number", "idle"], ["Subscribed to", "noted", "places", "destinations"], ["Un\u00adconfirmed", "text", "number", "unconfirmed"], ["Unacked", "text", "number", "unacknowledged"], ["From client", "noted", "number", "client_bytes"], ["From brokers", "noted", "number", "broker_bytes"], ["", "button", "number"]], "No session is like that.", (key) => sessions.by(key));

for (const [key, name] of Object.entries(SORTS)) {
  for (const sort of [key, `-${key}`]) {
    const rising = WORDY.has(key) === (sort === key);
    $("sort").append(make("option", { value: sort }, `${name} ${rising ? "▲" : "▼"}`));
  }
}
$("sort").onchange = () => { sessions.sort = $("sort").value; sessions.mark(); sessions.restart(); };
$("size").onchange = () => sessions.restart();
$("hold").onchange = () => { watch(); if (!$("hold").checked) sessions.ask(); };
$("first").onclick = () => sessions.restart();
$("next").onclick = () => sessions.turn(sessions.following, [...sessions.cursors, [sessions.after, sessions.before]], sessions.before + listing.rows.size);
$("previous").onclick = () => {
  const [after, before] = sessions.cursors.at(-1);
  sessions.turn(after, sessions.cursors.slice(0, -1), before);
};
let typing = null;
$("search").oninput = () => {
  clearTimeout(typing);
  typing = setTimeout(() => { sessions.search = $("search").value; sessions.restart(); }, 250);
};

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  watch();
  ask();
  sessions.ask();
});
// On a phone each row is a card, and fifty cards are too long.
if (matchMedia("(max-width: 860px)").matches) $("size").value = "25";
setInterval(watch, 250);
sessions.mark();
ask();
sessions.ask();
