"use strict";
(() => {
  // Times in the reader's own zone, on request.
  const body = document.body;
  const button = document.getElementById("zone");
  const parts = {
    day: { day: "numeric", month: "short" },
    hour: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
    second: { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
    both: { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
    stamp: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
    full: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
  };
  const formats = {};
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
  for (const form in parts) formats[form] = new Intl.DateTimeFormat("en-GB", parts[form]);
  const times = [...document.querySelectorAll("time[data-form]")];
  const written = times.map((time) => time.textContent);
  const show = (local) => {
    body.dataset.zone = local ? "local" : "utc";
    times.forEach((time, index) => {
      let form = time.dataset.form;
      const at = new Date(time.dateTime);
      // A tick at midnight UTC is a day there, and an hour here.
      if (local && form === "day" && time.closest(".xs") && (at.getHours() || at.getMinutes())) form = "hour";
      time.textContent = local ? formats[form].format(at) : written[index];
    });
    for (const name of document.querySelectorAll(".zone")) name.textContent = local ? zone : "UTC";
    button.setAttribute("aria-pressed", String(local));
    button.textContent = local ? "Times in UTC" : "Times in my zone";
  };
  button.hidden = false;
  button.addEventListener("click", () => show(body.dataset.zone !== "local"));
  if (body.dataset.zone === "local") show(true);

  // A browser that lays tables out as lists, as on a phone, may forget what they are.
  const roles = { table: "table", thead: "rowgroup", tbody: "rowgroup", tr: "row", "thead th": "columnheader", "tbody th": "rowheader", td: "cell" };
  for (const which in roles) for (const one of document.querySelectorAll(which)) one.setAttribute("role", roles[which]);

  // What a chart holds at the time that is pointed at, from the table that belongs to it.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  body.append(tip);
  const pointer = document.createElement("div");
  pointer.className = "pointer";
  const line = (first, second) => {
    const row = document.createElement("div");
    for (const text of [first, second]) {
      const span = document.createElement("span");
      span.textContent = text;
      row.append(span);
    }
    return row;
  };
  const hide = () => {
    tip.hidden = true;
    pointer.remove();
  };
  for (const plot of document.querySelectorAll(".plot[data-sheet]")) {
    const table = document.getElementById(plot.dataset.sheet).querySelector("table");
    const heads = table.tHead.rows[0].cells;
    const rows = table.tBodies[0].rows;
    const columns = plot.dataset.columns.split(" ").map(Number);
    const field = plot.querySelector(".field");
    let current = 0;
    const point = (bin) => {
      current = Math.max(0, Math.min(rows.length - 1, bin));
      const cells = rows[current].cells;
      const title = document.createElement("b");
      title.textContent = cells[0].textContent + (body.dataset.zone === "local" ? "" : " UTC");
      tip.replaceChildren(title, ...columns.filter((n) => cells[n].textContent !== "0").map((n) => line(heads[n].textContent, cells[n].textContent)));
      const share = (current + 0.5) / rows.length;
      pointer.style.left = 100 * share + "%";
      field.append(pointer);
      tip.hidden = false;
      const box = field.getBoundingClientRect();
      const x = box.left + share * box.width;
      const left = x + 14 + tip.offsetWidth < document.documentElement.clientWidth ? x + 14 : x - 14 - tip.offsetWidth;
      tip.style.left = Math.max(4, left) + window.scrollX + "px";
      tip.style.top = box.top + window.scrollY + 4 + "px";
    };
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", "Chart; the arrow keys move through time");
    plot.addEventListener("pointermove", (event) => {
      const box = field.getBoundingClientRect();
      point(Math.floor(((event.clientX - box.left) / box.width) * rows.length));
    });
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: rows.length - 1 }[event.key];
      if (to !== undefined) {
        event.preventDefault();
        point(to);
      } else if (event.key === "Escape") hide();
    });
  }
})();
