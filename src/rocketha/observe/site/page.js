"use strict";
// The page: asks for overview.json twice a second and shows it. Everything is put in as text, never as markup, and only
// what changed is made anew, so that whoever has selected, focused or scrolled something keeps it.

const EVERY_MS = 500;
const LATE_MS = 5000;
const TIMELINE_SHOWN = 100;
const DASH = "–";

const shown = new Map();
let paused = false;
let latest = null;
let newest = null;
let timer = null;
let asking = false;

const by = (id) => document.getElementById(id);

function make(tag, text, kind) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = String(text);
  if (kind) element.className = kind;
  return element;
}

// Whether something is another than when it was shown last.
function changed(key, value) {
  const text = JSON.stringify(value);
  if (shown.get(key) === text) return false;
  shown.set(key, text);
  return true;
}

const count = (value) => (value === null || value === undefined ? DASH : value.toLocaleString("en"));

function bytes(value) {
  if (value === null || value === undefined) return DASH;
  if (value < 1024) return `${value} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let size = value / 1024, unit = 0;
  while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit += 1; }
  return `${size.toFixed(1)} ${units[unit]}`;
}

function badge(text, well) {
  return make("span", text, `badge ${well === true ? "good" : well === false ? "bad" : "unknown"}`);
}

// Without the columns that nothing here is known for.
function known(columns, rows, fields) {
  return columns.filter(([title]) => !(title in fields) || rows.some((row) => row[fields[title]] !== null));
}

// columns: [title, class, row => text or element, whether it heads its row]
function table(name, columns, rows) {
  const made = document.createElement("table");
  made.append(make("caption", name, "unseen"));
  const head = make("tr");
  for (const [title, kind] of columns) {
    const cell = make("th", title, kind);
    cell.scope = "col";
    head.append(cell);
  }
  made.append(document.createElement("thead"), document.createElement("tbody"));
  made.tHead.append(head);
  for (const row of rows) {
    const line = make("tr");
    for (const [, kind, show, heads] of columns) {
      const cell = make(heads ? "th" : "td", undefined, kind);
      if (heads) cell.scope = "row";
      const what = show(row);
      if (what instanceof Node) cell.append(what); else cell.textContent = String(what);
      line.append(cell);
    }
    made.tBodies[0].append(line);
  }
  return made;
}

function fill(id, name, columns, found, rows) {
  const section = by(id);
  section.classList.toggle("none", found.rows.length === 0);
  if (!changed(id, [rows, found.more])) return;
  const box = section.querySelector(".scroll");
  const { scrollTop, scrollLeft } = box;
  box.replaceChildren(table(name, columns, rows));
  if (found.more) box.append(make("p", `${count(found.more)} more are not shown.`, "quiet"));
  if (!rows.length && found.rows.length) box.append(make("p", "None of them has that in its name.", "quiet"));
  box.scrollTop = scrollTop;
  box.scrollLeft = scrollLeft;
}

function named(id, rows, fields) {
  const wanted = by(`${id}-filter`).value.trim().toLowerCase();
  return wanted ? rows.filter((row) => fields.some((field) => row[field].toLowerCase().includes(wanted))) : rows;
}

const PROCESSES = [
  ["Name", "", (row) => row.name, true],
  ["Kind", "", (row) => row.kind],
  ["State", "", (row) => badge(row.state || "not known", row.well)],
  ["Address", "address", (row) => row.address || DASH],
  ["More", "more", (row) => row.detail],
];

const TOPICS = [
  ["Topic", "", (row) => row.name, true],
  ["Brokers", "more", (row) => row.brokers.join(", ")],
  ["Queues", "number", (row) => count(row.queues)],
  ["Messages", "number", (row) => count(row.messages)],
];

const CONSUMERS = [
  ["Group", "", (row) => row.group, true],
  ["Topic", "", (row) => row.topic],
  ["Members here", "number", (row) => count(row.members)],
  ["Lag, messages", "number", (row) => count(row.lag)],
];

const REFUSED = [
  ["Request", "", (row) => row.what, true],
  ["Reason", "", (row) => row.reason],
  ["Server", "", (row) => row.role],
  ["Times", "number", (row) => count(row.count)],
];

const EVENTS = [
  ["Event", "", (row) => row[0], true],
  ["Times", "number", (row) => count(row[1])],
];

const REPLICAS = [
  ["Broker", "", (row) => row.broker_id === null ? DASH : `id ${row.broker_id}`, true],
  ["Address", "address", (row) => row.address],
  ["Role", "", (row) => badge(row.role || "not heard", row.role === "master" ? true : row.role ? null : false)],
  ["In sync", "", (row) => row.in_sync === null ? DASH : badge(row.in_sync ? "in sync" : "no", row.in_sync)],
  ["Epoch", "number", (row) => count(row.epoch)],
  ["Log end", "number", (row) => count(row.end)],
  ["Lag", "number", (row) => bytes(row.lag_bytes)],
  ["Heard", "number", (row) => row.heard_ms === null ? DASH : `${Math.round(row.heard_ms / 1000)} s ago`],
];

function showGroups(found) {
  by("groups").classList.toggle("none", found.rows.length === 0);
  if (!changed("groups", found)) return;
  const made = found.rows.map((group) => {
    const box = make("div", undefined, "group");
    const name = `${group.cluster}/${group.name}`;
    const facts = make("p", undefined, "facts");
    const fact = (title, value) => {
      const one = make("span", `${title} `);
      one.append(make("strong", value));
      facts.append(one);
    };
    const masters = group.replicas.filter((each) => each.role === "master");
    const called = (each) => (each.broker_id === null ? each.address : `${each.broker_id} (${each.address})`);
    fact("Master", masters.map(called).join(", ") || "none");
    if (group.epoch !== null) fact("Epoch", count(group.epoch));
    const synced = group.replicas.filter((each) => each.in_sync);
    if (group.set_epoch !== null) {
      fact("SyncStateSet", synced.map((each) => each.broker_id).join(", ") || "nobody");
      fact("Set epoch", count(group.set_epoch));
    }
    fact("As told by", group.source);
    const fields = { Epoch: "epoch", "Log end": "end", Lag: "lag_bytes", Heard: "heard_ms", "In sync": "in_sync" };
    const columns = known(REPLICAS, group.replicas, fields);
    const scroll = make("div", undefined, "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "group");
    scroll.setAttribute("aria-label", `Replicas of ${name}`);
    scroll.append(table(`Replicas of ${name}`, columns, group.replicas));
    box.append(make("h3", name), facts, scroll);
    return box;
  });
  const body = by("groups-body");
  const focused = [...body.querySelectorAll(".scroll")].indexOf(document.activeElement);
  body.replaceChildren(...made);
  if (found.more) body.append(make("p", `${count(found.more)} more groups are not shown.`, "quiet"));
  if (focused >= 0) body.querySelectorAll(".scroll")[focused]?.focus({ preventScroll: true });
}

function wallTime(ms) {
  const time = document.createElement("time");
  if (!ms) { time.textContent = "time not noted"; return time; }
  const text = new Date(ms).toISOString();
  time.dateTime = text;
  time.textContent = `${text.slice(0, 10)} ${text.slice(11, 23)}`;
  time.title = new Date(ms).toString();
  return time;
}

function showTimeline(moments) {
  by("timeline").classList.toggle("none", moments.length === 0);
  const rows = moments.slice(0, TIMELINE_SHOWN);
  if (changed("timeline", rows)) {
    const box = by("moments").parentElement;
    const top = box.scrollTop;
    by("moments").replaceChildren(...rows.map((each) => {
      const line = make("li", undefined, each.level);
      const text = make("span", each.text, "text");
      if (each.why) text.append(make("span", each.why, "why"));
      line.append(wallTime(each.at_ms), make("span", each.event, "name"), text);
      return line;
    }));
    box.scrollTop = top;
  }
  // Said once to who does not see it: the newest, and how many there are beside it.
  const first = moments.length ? JSON.stringify(moments[0]) : "";
  if (newest !== null && first !== newest && moments.length) {
    const before = moments.findIndex((each) => JSON.stringify(each) === newest);
    const more = before > 1 ? ` And ${before - 1} more.` : "";
    by("news").textContent = `${moments[0].event}: ${moments[0].text}.${more}`;
  }
  newest = first;
}

function showHealth(process) {
  const why = process.unhealthy || process.unready || "";
  const state = process.unhealthy ? "unhealthy" : process.unready ? "not ready" : "healthy and ready";
  if (!changed("health", [process.title, state, why])) return;
  by("title").textContent = process.title;
  document.title = `${why ? "! " : ""}${process.title}`;
  by("health").textContent = state;
  by("health").className = `badge ${why ? "bad" : "good"}`;
  by("reason").textContent = why;
}

function showNotes(notes) {
  by("notes").classList.toggle("none", notes.length === 0);
  if (changed("notes", notes)) by("notes-list").replaceChildren(...notes.map((each) => make("li", each)));
}

function show(found) {
  showHealth(found.process);
  showGroups(found.groups);
  showTimeline(found.timeline);
  fill("processes", "Processes", PROCESSES, found.processes, found.processes.rows);
  fill("topics", "Topics", known(TOPICS, found.topics.rows, { Messages: "messages" }), found.topics,
    named("topics", found.topics.rows, ["name"]));
  fill("consumers", "Consumer groups", CONSUMERS, found.consumers,
    named("consumers", found.consumers.rows, ["group", "topic"]));
  fill("refused", "What was refused", REFUSED, found.refused, found.refused.rows);
  const events = Object.entries(found.events);
  fill("events", "Events", EVENTS, { rows: events, more: 0 }, events);
  showNotes(found.notes);
}

// A live region is written to when something else is to be said, not each time.
function sayLink(text, lost) {
  if (!changed("link", text)) return;
  by("link").textContent = text;
  by("link").className = lost ? "reason" : "quiet";
}

async function ask() {
  timer = null;
  asking = true;
  try {
    const answer = await fetch("overview.json", { cache: "no-store", signal: AbortSignal.timeout(LATE_MS) });
    if (!answer.ok) throw new Error(`answer ${answer.status}`);
    latest = await answer.json();
    if (!paused) { show(latest); sayLink("Live", false); }
  } catch (problem) {
    if (!paused) sayLink(`No answer from this process: what is shown is old (${problem.message})`, true);
  }
  asking = false;
  if (!paused && !document.hidden) timer = setTimeout(ask, EVERY_MS);
}

// Begins again at once, where it was left off.
function resume() {
  if (!paused && !document.hidden && !asking && timer === null) ask();
}

by("pause").addEventListener("click", () => {
  paused = !paused;
  by("pause").setAttribute("aria-pressed", String(paused));
  sayLink(paused ? "Paused: what is shown does not change" : "Asking …", false);
  if (paused && timer !== null) { clearTimeout(timer); timer = null; }
  resume();
});

for (const id of ["topics", "consumers"]) {
  by(`${id}-filter`).addEventListener("input", () => { if (latest) show(latest); });
}

document.addEventListener("visibilitychange", resume);

for (const section of document.querySelectorAll("main > section")) {
  const link = make("a", section.dataset.name);
  link.href = `#${section.id}`;
  const item = make("li");
  item.append(link);
  by("contents").append(item);
}

ask();
