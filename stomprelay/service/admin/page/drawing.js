// Functions to draw the page: numbers as text, the history of five minutes, its lines and tables.
"use strict";

const EVERY = 1000; // ms between two requests
const KEPT = 300; // seconds of history
const LEAST = 60; // seconds that are drawn at least
const GAP = 5; // no rate is computed between answers that are more seconds apart

const $ = (id) => document.getElementById(id);

// Return a text in which invisible characters and changes of direction are replaced.
const visible = (text) => text.replace(/(?![\t\n])[\p{C}\p{Zl}\p{Zp}]/gu,
  (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);

function make(name, attributes = {}, ...children) {
  const made = name === "svg" || name === "path" ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.map((each) => (typeof each === "string" ? visible(each) : each)));
  return made;
}

function put(node, said) {
  const text = visible(`${said}`);
  if (node.textContent !== text) node.textContent = text;
}

// ---- numbers as text

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const count = (value) => whole.format(value);
const rough = (value) => (value >= 10000 ? short.format(value) : value >= 10 ? whole.format(Math.round(value)) : tenths.format(value));

function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; unit += 1) value /= 1000;
  return `${value >= 100 || unit === 0 ? Math.round(value) : tenths.format(value)} ${units[unit]}`;
}

function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const two = (value) => String(value).padStart(2, "0");
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${two(Math.floor(s / 3600) % 24)} h`;
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const plural = (value, thing) => `${count(value)} ${thing}${value === 1 ? "" : "s"}`;
const sum = (rows, field) => rows.reduce((total, row) => total + field(row), 0);

// ---- history: the drawn figures by name; a name without new figures is removed

let histories = new Map();
let told = new Map();

function history(name) {
  const found = histories.get(name) ?? { points: [], last: null };
  told.set(name, found);
  return found;
}

function add(found, time, value) {
  found.points.push([time, value]);
  while (found.points.length > KEPT + 100 || found.points[0][0] < time - KEPT) found.points.shift();
}

function gauge(name, time, value) {
  const found = history(name);
  const before = found.points.at(-1);
  if (before !== undefined && time <= before[0]) return found;
  if (before !== undefined && time - before[0] > GAP) add(found, time, null);
  add(found, time, value);
  return found;
}

function rate(name, time, total) {
  const found = history(name);
  const last = found.last;
  if (last !== null && time - last.time < EVERY / 4000) return found;
  if (last !== null) add(found, time, time - last.time > GAP || total < last.total ? null : (total - last.total) / (time - last.time));
  found.last = { time, total };
  return found;
}

const now = (found) => found.points.at(-1)?.[1] ?? null;

// ---- sparklines

function sparkline(way) {
  return make("svg", { class: `spark ${way}`, viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img" },
    make("path", { class: "area" }), make("path", { class: "line" }));
}

function draw(svg, found, unit) {
  const values = found.points.filter(([, value]) => value !== null);
  const most = Math.max(0, ...values.map(([, value]) => value));
  const end = found.points.at(-1)?.[0] ?? 0;
  const span = Math.min(KEPT, Math.max(LEAST, end - (found.points[0]?.[0] ?? end)));
  const x = (time) => (100 * (1 - (end - time) / span)).toFixed(2);
  const y = (value) => (28.5 - 26 * (most ? value / most : 0)).toFixed(2);
  let line = "", area = "", from = null, to = null;
  const close = () => { if (from !== null) area += `L${to} 30L${from} 30Z`; from = null; };
  for (const [time, value] of found.points) {
    if (value === null) { close(); continue; }
    to = x(time);
    const step = `${from === null ? "M" : "L"}${to} ${y(value)}`;
    line += step;
    area += step;
    from ??= to;
  }
  close();
  svg.firstChild.setAttribute("d", area);
  svg.lastChild.setAttribute("d", line);
  svg.setAttribute("aria-label", values.length ? `at most ${unit(most)} in five minutes` : "nothing yet");
}

// ---- tables: a row with the same key stays the same element, so that its buttons keep the focus

const CELLS = {
  text: (cell, value) => put(cell, value == null ? "" : String(value)),
  noted: (cell, [text, note]) => {
    if (!cell.firstChild) cell.append(make("div", {}, make("span"), make("small")));
    put(cell.firstChild.firstChild, text);
    put(cell.firstChild.lastChild, note);
  },
  state: (cell, [word, tone, note]) => {
    if (!cell.firstChild) cell.append(make("div", {}, make("span"), make("small")));
    cell.firstChild.firstChild.className = `state ${tone}`;
    put(cell.firstChild.firstChild, word);
    put(cell.firstChild.lastChild, note ?? "");
  },
  traffic: (cell, [frames, size, way]) => {
    if (!cell.firstChild) cell.append(make("div", {}, sparkline(way), make("span", {}, make("b"), make("small"))));
    draw(cell.firstChild.firstChild, frames, frameRate);
    const [figure, note] = cell.firstChild.lastChild.children;
    put(figure, now(frames) === null ? "–" : frameRate(now(frames)));
    put(note, now(size) === null ? "" : byteRate(now(size)));
  },
  button: (cell, value) => {
    if (value === null) return cell.replaceChildren();
    if (!cell.firstChild) cell.append(make("button", { type: "button" }));
    const button = cell.firstChild;
    put(button, value.text);
    button.setAttribute("aria-label", `${value.text} ${value.what}`);
    button.onclick = value.act;
  },
};

class Table {
  // `columns` are [heading, kind, class, key to sort by]; `empty` is the text of a table without rows.
  constructor(place, columns, empty, sort = null) {
    this.columns = columns;
    this.rows = new Map();
    this.none = make("p", { class: "none" }, empty);
    this.heads = columns.map(([name, , kind, key]) => {
      const head = make("th", { scope: "col", role: "columnheader", class: kind });
      if (key) {
        const button = make("button", { type: "button" }, name);
        button.onclick = () => sort(key);
        head.append(button);
      } else head.append(name === "" ? make("span", { class: "unseen" }, "Order") : name);
      return head;
    });
    this.body = make("tbody", { role: "rowgroup" });
    this.whole = make("table", { role: "table", "aria-labelledby": place.parentElement.querySelector("h2").id },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...this.heads)), this.body);
    place.append(this.whole, this.none);
    this.show([]);
  }

  // Show rows, each {key, cells, group}; `group` marks a row of sums.
  show(rows) {
    this.whole.hidden = !rows.length;
    this.none.hidden = rows.length > 0;
    const kept = new Map();
    let place = this.body.firstChild;
    for (const { key, cells, group } of rows) {
      const row = this.rows.get(key) ?? this.made(group);
      kept.set(key, row);
      this.columns.forEach(([, kind], at) => CELLS[kind](row.children[at], cells[at]));
      if (row === place) place = place.nextSibling;
      else this.body.insertBefore(row, place);
    }
    for (const [key, row] of this.rows) if (!kept.has(key)) row.remove();
    this.rows = kept;
  }

  made(group) {
    const cells = this.columns.map(([name, , kind], at) => {
      const shared = { class: kind, ...(at && name ? { "data-label": name } : {}) };
      return at ? make("td", { role: "cell", ...shared }) : make("th", { scope: "row", role: "rowheader", ...shared });
    });
    return make("tr", { role: "row", ...(group ? { class: "group" } : {}) }, ...cells);
  }
}
