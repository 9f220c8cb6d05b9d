// STOMP as bytes, in its three versions: makes and reads frames. Does not use the page.
"use strict";

const MOST = 64 * 1024 * 1024; // bytes that a frame may have at most
const IDLE_SIZE = 64 * 1024; // bytes of an empty buffer at most
const [NUL, LF, CR] = [0, 10, 13];

// The facts of each version. `ack` makes the headers of ACK and NACK from the headers of a MESSAGE.
const DIALECTS = {
  "1.0": { protocol: "v10.stomp", escapes: [], cr: false, nack: false, beats: false,
    opening: () => [],
    ack: (message) => [["message-id", message.get("message-id")]] },
  "1.1": { protocol: "v11.stomp", escapes: [["\\", "\\\\"], ["\n", "\\n"], [":", "\\c"]], cr: false, nack: true, beats: true,
    opening: (host) => [["accept-version", "1.1"], ["host", host]],
    ack: (message) => [["message-id", message.get("message-id")], ["subscription", message.get("subscription")]] },
  "1.2": { protocol: "v12.stomp", escapes: [["\\", "\\\\"], ["\r", "\\r"], ["\n", "\\n"], [":", "\\c"]], cr: true, nack: true, beats: true,
    opening: (host) => [["accept-version", "1.2"], ["host", host]],
    ack: (message) => [["id", message.get("ack")]] },
};
const UNESCAPED = new Set(["CONNECT", "STOMP", "CONNECTED"]);

const utf8 = new TextEncoder();
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

const escaped = (dialect, text) => dialect.escapes.reduce((found, [sign, spelled]) => found.replaceAll(sign, spelled), text);

function unescaped(dialect, text) {
  const signs = new Map(dialect.escapes.map(([sign, spelled]) => [spelled, sign]));
  return signs.size ? text.replace(/\\./g, (spelled) => signs.get(spelled) ?? spelled) : text;
}

// Return the bytes of a frame. `headers` are [name, value]; a frame with a body gets a content-length.
function compose(dialect, command, headers, body = null) {
  const spell = UNESCAPED.has(command) ? (text) => text : (text) => escaped(dialect, text);
  const all = body === null ? headers : [...headers, ["content-length", String(body.length)]];
  const head = utf8.encode(`${command}\n${all.map(([name, value]) => `${spell(name)}:${spell(value)}\n`).join("")}\n`);
  return joined(head, body ?? new Uint8Array(0), Uint8Array.of(NUL));
}

function joined(...parts) {
  const found = new Uint8Array(parts.reduce((total, each) => total + each.length, 0));
  let at = 0;
  for (const each of parts) {
    found.set(each, at);
    at += each.length;
  }
  return found;
}

// Reads frames from bytes that are received in any pieces.
class FrameReader {
  constructor(dialect) {
    this.dialect = dialect;
    this.kept = new Uint8Array(IDLE_SIZE);
    this.start = this.size = 0; // the kept bytes that are not read yet are between these positions
    this.looked = 0; // bytes that were already searched for the end of a head or a body
    this.frame = null; // the frame whose head is complete
    this.beats = 0;
  }

  // Take bytes, and return the frames that are complete: {head, command, headers, body}. Beats are counted in `beats`.
  received(data) {
    this.keep(data);
    const found = [];
    for (let each = this.next(); each !== null; each = this.next()) found.push(each);
    if (this.start === this.size && this.kept.length > IDLE_SIZE) this.kept = new Uint8Array(IDLE_SIZE);
    return found;
  }

  keep(data) {
    this.kept.copyWithin(0, this.start, this.size);
    this.size -= this.start;
    this.start = 0;
    const size = this.size + data.length;
    if (size > MOST) throw new RangeError(`a frame has more than ${MOST} bytes`);
    if (size > this.kept.length) {
      const larger = new Uint8Array(Math.max(size, 2 * this.kept.length));
      larger.set(this.kept.subarray(0, this.size));
      this.kept = larger;
    }
    this.kept.set(data, this.size);
    this.size = size;
  }

  // The kept bytes that are not read yet.
  rest() {
    return this.kept.subarray(this.start, this.size);
  }

  drop(size) {
    this.start += size;
    this.looked = 0;
  }

  next() {
    if (this.frame === null && !this.head()) return null;
    const { head, command, headers, length } = this.frame;
    const rest = this.rest();
    const end = length ?? rest.indexOf(NUL, this.looked);
    this.looked = rest.length;
    if (end < 0 || end >= rest.length) return null;
    if (rest[end] !== NUL) throw new RangeError(`${command} is not as long as it says`);
    const body = rest.slice(0, end);
    this.drop(end + 1);
    this.frame = null;
    return { head, command, headers, body };
  }

  // Read the head of the next frame, with the beats before it; return whether it is complete.
  head() {
    for (; this.kept[this.start] === LF || this.kept[this.start] === CR; this.drop(1)) {
      if (this.start === this.size) return false;
      if (this.kept[this.start] === LF) this.beats += 1;
    }
    const end = this.blank();
    if (end === null) return false;
    const head = lenient.decode(this.rest().subarray(0, end));
    const [command, ...lines] = head.split("\n").map((line) => (this.dialect.cr ? line.replace(/\r$/, "") : line)).filter((line) => line !== "");
    const spell = UNESCAPED.has(command) ? (text) => text : (text) => unescaped(this.dialect, text);
    const headers = new Map();
    for (const line of lines) {
      const colon = line.indexOf(":");
      const name = spell(line.slice(0, colon < 0 ? line.length : colon));
      if (!headers.has(name)) headers.set(name, colon < 0 ? "" : spell(line.slice(colon + 1)));
    }
    const length = headers.get("content-length")?.trim();
    this.frame = { head, command, headers, length: /^\d{1,15}$/.test(length ?? "") ? Number(length) : null };
    this.drop(end);
    return true;
  }

  // Return where the head ends, behind its blank line; null while the blank line is missing.
  blank() {
    const rest = this.rest();
    for (let at = rest.indexOf(LF, Math.max(0, this.looked - 2)); at >= 0; at = rest.indexOf(LF, at + 1)) {
      const next = this.dialect.cr && rest[at + 1] === CR ? at + 2 : at + 1;
      if (rest[next] === LF) return next + 1;
    }
    this.looked = rest.length;
    return null;
  }
}

// ---- frames as text for the user

const HEX = 512; // bytes that are shown of a body that is no text
const LONGEST = 16 * 1024; // characters of a head or a body that are shown

const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}… and more` : text);

// Return a head as it is on the wire, without its passcode.
const headText = (head) => cut(visible(head.trimEnd().replace(/^(\s*passcode\s*:).*$/gim, "$1***")));

function bodyText(body) {
  const begins = body.subarray(0, 4 * LONGEST);
  try {
    // The last character may be incomplete if there are more bytes.
    const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
    return cut(visible(strict.decode(begins, { stream: begins.length < body.length })));
  } catch {
    const shown = [...body.subarray(0, HEX)].map((each) => each.toString(16).padStart(2, "0")).join(" ");
    return `${shown}${body.length > HEX ? ` … and ${count(body.length - HEX)} bytes more` : ""}`;
  }
}
