// The console: it connects to a listener of the relay, sends what the user asks for, and shows each frame. What the page
// shows is bounded, and is only ever put into the page as text.
"use strict";

const FRAMES = 500; // frames that are shown at most
const SIZE = 2 * 1024 * 1024; // characters of all shown frames at most
const IDLE = 30 * 60 * 1000; // ms without a command after which the session is ended
const TICK = 250; // ms between two updates of the counters

// ---- messages to the user

function notice(text, alarmed = false) {
  $("notice").className = alarmed ? "notice alarmed" : "notice";
  $("notice").hidden = text === "";
  put($("notice"), text);
}

const TONES = { connected: "good", connecting: "warn", "open": "warn", "not connected": "" };

function become(state, peer = "") {
  put($("state"), state);
  $("state").className = `state ${TONES[state]}`;
  put($("peer"), peer);
  document.title = `${state}: console: stomprelay`;
  const there = state === "open" || state === "connected";
  $("connect-do").disabled = state !== "not connected";
  $("cut").disabled = state === "not connected";
  $("disconnect").disabled = !there;
  for (const name of ["subscribe", "send", "raw"]) $(name).querySelector("button").disabled = !there;
  $("begin").disabled = !there;
  offer();
}

// Enable the buttons for a transaction if a transaction is chosen.
function offer() {
  for (const name of ["commit", "abort"]) $(name).disabled = session === null || $("transaction").value === "";
}

// ---- the frames that are shown

const log = {
  waiting: [], // the frames that are drawn next
  shown: 0, // characters that are shown
  gone: 0,
  total: { sent: 0, received: 0 },
  beats: { sent: 0, received: 0 },
  drawing: false,

  add(way, head, body, buttons = []) {
    this.total[way] += 1;
    const [told, text] = [headText(head), bodyText(body)];
    this.waiting.push({ way, head: told, body: text, bytes: body.length, buttons, time: Date.now(), size: told.length + text.length });
    if (this.waiting.length > FRAMES) {
      this.waiting.shift();
      this.gone += 1;
    }
    // A page that is not visible draws nothing; the number of waiting frames is bounded.
    if (!this.drawing) requestAnimationFrame(() => this.draw());
    this.drawing = true;
  },

  draw() {
    this.drawing = false;
    const place = $("log");
    const follows = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    for (const each of this.waiting.splice(0)) {
      place.append(this.made(each));
      this.shown += each.size;
    }
    while (place.childElementCount > FRAMES || (this.shown > SIZE && place.childElementCount > 1)) {
      this.shown -= Number(place.firstElementChild.dataset.size);
      this.gone += 1;
      place.firstElementChild.remove();
    }
    if (follows) place.scrollTop = place.scrollHeight;
    this.tell();
  },

  made({ way, head, body, bytes, buttons, time, size }) {
    const sent = way === "sent";
    const kind = head.startsWith("ERROR") ? `${way} error` : way;
    const about = make("div", { class: "about" }, make("span", { class: "way" }, sent ? "→ sent" : "← received"), make("span", {}, clock(time / 1000)));
    if (bytes) about.append(make("span", {}, plural(bytes, "byte")));
    for (const { text, act } of buttons) {
      const button = make("button", { type: "button" }, text);
      button.onclick = () => act();
      about.append(button);
    }
    const row = make("li", { class: kind, "data-size": String(size) }, about, make("pre", {}, head));
    if (bytes) row.append(make("pre", { class: "body" }, body));
    return row;
  },

  tell() {
    const beats = this.beats.sent || this.beats.received ? `; heart-beats: ${count(this.beats.sent)} sent, ${count(this.beats.received)} received` : "";
    const gone = this.gone ? `; ${count(this.gone)} older ones are gone` : "";
    put($("counts"), `${count(this.total.sent)} sent, ${count(this.total.received)} received${gone}${beats}`);
  },

  clear() {
    Object.assign(this, { waiting: [], shown: 0, gone: 0, total: { sent: 0, received: 0 }, beats: { sent: 0, received: 0 } });
    $("log").replaceChildren();
    this.tell();
  },
};

// ---- a session

let session = null; // the session that is open or opening

class Session {
  constructor(dialect) {
    this.dialect = dialect;
    this.reader = new FrameReader(dialect);
    this.socket = null;
    this.subscriptions = new Map();
    this.named = 0;
    this.receipts = new Set();
    this.beating = null;
    this.saidAt = Date.now();
    this.failed = "";
  }

  name(kind) {
    this.named += 1;
    return `${kind}-${this.named}`;
  }

  // Send bytes, and show them as one frame.
  write(data) {
    this.saidAt = Date.now();
    this.socket.send(data);
    const text = lenient.decode(data);
    const blank = /\r?\n\r?\n/.exec(text);
    const size = blank === null ? text.length : blank.index + blank[0].length;
    const head = text.slice(0, size);
    log.add("sent", head.replace(/\0$/, ""), data.subarray(utf8.encode(head).length, Math.max(0, data.length - 1)));
  }

  // Send a command with the headers that the user chose; SEND, ACK and NACK may be in a transaction.
  command(name, headers, body = null) {
    const transaction = $("transaction").value;
    const all = [...headers];
    if (transaction && ["SEND", "ACK", "NACK"].includes(name)) all.push(["transaction", transaction]);
    if ($("receipt").checked || name === "DISCONNECT") {
      const receipt = this.name("receipt");
      this.receipts.add(receipt);
      all.push(["receipt", receipt]);
      this.await();
    }
    this.write(compose(this.dialect, name, all, body));
  }

  await() {
    put($("awaited"), this.receipts.size ? `${plural(this.receipts.size, "receipt")} awaited` : "");
  }

  connect() {
    const opening = this.dialect.opening($("host").value);
    if (this.dialect.beats) opening.push(["heart-beat", $("beat").value]);
    if ($("login").value) opening.push(["login", $("login").value]);
    if ($("passcode").value) opening.push(["passcode", $("passcode").value]);
    this.write(compose(this.dialect, "CONNECT", [...opening, ...headers("connect-headers")]));
  }

  received(data) {
    let found;
    try {
      const before = this.reader.beats;
      found = this.reader.received(data);
      log.beats.received += this.reader.beats - before;
    } catch (error) {
      this.end(`What came is no STOMP: ${error.message}`);
      return;
    }
    for (const each of found) {
      log.add("received", each.head, each.body, each.command === "MESSAGE" ? this.answers(each.headers) : []);
      if (each.command === "CONNECTED") this.connected(each.headers);
      if (each.command === "RECEIPT" && this.receipts.delete(each.headers.get("receipt-id"))) this.await();
      if (each.command === "ERROR") this.failed = visible(each.headers.get("message") ?? "an error");
    }
  }

  connected(found) {
    become("connected", `STOMP ${found.get("version") ?? "1.0"}, session ${visible(found.get("session") ?? "without a name")}`);
    const wanted = Number((found.get("heart-beat") ?? "0,0").split(",")[1]);
    const can = Number($("beat").value.split(",")[0]);
    if (!this.dialect.beats || !wanted || !can || this.beating !== null) return;
    this.beating = setInterval(() => { this.socket.send(Uint8Array.of(LF)); log.beats.sent += 1; }, Math.max(wanted, can));
  }

  // Return the buttons of a MESSAGE that the user has to acknowledge.
  answers(message) {
    const mode = this.subscriptions.get(message.get("subscription"))?.ack;
    if (mode === "auto") return [];
    const found = this.dialect.ack(message).map(([key, value]) => [key, value ?? ""]);
    const names = this.dialect.nack ? ["ACK", "NACK"] : ["ACK"];
    return names.map((name) => ({ text: name, act: () => {
      if (session === this) this.command(name, found);
    } }));
  }

  // End the session at once, for this reason.
  end(reason) {
    this.failed = reason;
    this.socket?.close(1000);
  }

  ended(told) {
    clearInterval(this.beating);
    session = null;
    for (const each of $("transaction").querySelectorAll("option:not([value=''])")) each.remove();
    $("subscriptions").replaceChildren();
    put($("awaited"), "");
    become("not connected");
    notice(told, true);
  }
}

// ---- connecting

async function ask(path, options = {}) {
  const response = await fetch(path, { cache: "no-store", ...options });
  const said = await response.json().catch(() => ({}));
  if (response.ok) return said;
  throw new Error(said.error ?? (response.status === 401 ? "the token is asked for: load this page anew" : `the relay answered ${response.status}`));
}

async function connect() {
  const made = (session = new Session(DIALECTS[$("version").value]));
  become("connecting");
  notice("");
  try {
    const headers = { "content-type": "application/json" };
    const { ticket } = await ask("console/open", { method: "POST", headers, body: JSON.stringify({ listener: $("listener").value }) });
    if (made.failed) return made.ended(made.failed);
    const place = new URL("console/socket", location.href);
    place.protocol = place.protocol.replace("http", "ws");
    made.socket = new WebSocket(place, [made.dialect.protocol, `ticket.${ticket}`]);
  } catch (error) {
    return made.ended(`Not connected: ${error instanceof TypeError ? "the relay does not answer" : error.message}`);
  }
  let opened = false;
  made.socket.binaryType = "arraybuffer";
  made.socket.onopen = () => {
    opened = true;
    become("open");
    if (!$("by-hand").checked) made.connect();
  };
  made.socket.onmessage = ({ data }) => made.received(typeof data === "string" ? utf8.encode(data) : new Uint8Array(data));
  made.socket.onclose = ({ code, reason }) => {
    const why = made.failed ? `: ${made.failed}` : "";
    const words = reason ? ` (${code}, ${visible(reason)})` : ` (${code})`;
    if (opened) made.ended(`The session has ended${why}${words}.`);
    else made.ended(`Not connected${why || ": the relay takes no client now. Its log says why"}.`);
  };
}

function headers(name) {
  return $(name).value.split("\n").filter((line) => line.trim() !== "").map((line) => {
    const colon = line.indexOf(":");
    return colon < 0 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 1)];
  });
}

// ---- the user's requests

function subscribe() {
  const id = session.name("sub");
  const [destination, ack] = [$("subscribe-destination").value, $("ack").value];
  const at = session;
  session.subscriptions.set(id, { ack });
  session.command("SUBSCRIBE", [["id", id], ["destination", destination], ["ack", ack], ...headers("subscribe-headers")]);
  const button = make("button", { type: "button", "aria-label": `Unsubscribe ${id}` }, "Unsubscribe");
  const row = make("li", {}, make("span", {}, visible(`${id}: ${destination}, ${ack}`)), button);
  button.onclick = () => {
    at.command("UNSUBSCRIBE", [["id", id]]);
    at.subscriptions.delete(id);
    row.remove();
    $("subscribe-destination").focus();
  };
  $("subscriptions").append(row);
}

function send() {
  const kind = $("content-type").value ? [["content-type", $("content-type").value]] : [];
  session.command("SEND", [["destination", $("send-destination").value], ...kind, ...headers("send-headers")], utf8.encode($("body").value));
}

function begin() {
  const name = session.name("tx");
  session.command("BEGIN", [["transaction", name]]);
  $("transaction").append(make("option", { value: name }, name));
  $("transaction").value = name;
  offer();
}

function finish(command) {
  const chosen = $("transaction").selectedOptions[0];
  session.command(command, [["transaction", chosen.value]]);
  chosen.remove();
  $("transaction").value = "";
  offer();
}

const FORMS = { connect, with: begin, subscribe, send, raw: () => session.write(utf8.encode(`${$("raw-text").value}\0`)) };

for (const [name, act] of Object.entries(FORMS)) {
  $(name).onsubmit = (event) => {
    event.preventDefault();
    const ready = name === "connect" ? session === null : session?.socket?.readyState === WebSocket.OPEN;
    if (ready) act();
  };
}
$("commit").onclick = () => finish("COMMIT");
$("abort").onclick = () => finish("ABORT");
$("transaction").onchange = () => offer();
$("disconnect").onclick = () => session.command("DISCONNECT", []);
$("cut").onclick = () => session.end("it was cut off here");
$("clear").onclick = () => log.clear();
// Ctrl and Enter send a text of several lines.
for (const area of document.querySelectorAll("textarea")) {
  area.onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) area.form.requestSubmit(); };
}

let listeners = [];

function showVersions() {
  const found = listeners.find((each) => each.name === $("listener").value);
  const versions = (found?.versions ?? []).filter((each) => each in DIALECTS).sort().reverse();
  $("version").replaceChildren(...versions.map((each) => make("option", {}, each)));
  if (found?.closed) notice(`Not to ${found.name}: ${found.closed}.`);
}

async function begun() {
  try {
    ({ listeners } = await ask("console/listeners"));
    $("listener").replaceChildren(...listeners.map((each) => make("option", {}, each.name)));
    showVersions();
  } catch (error) {
    notice(`No listeners: ${error.message}`, true);
  }
}

$("listener").onchange = () => { notice(""); showVersions(); };
setInterval(() => {
  log.tell();
  if (session?.socket && Date.now() - session.saidAt > IDLE) session.end("nothing was asked for in half an hour");
}, TICK);
become("not connected");
begun();
