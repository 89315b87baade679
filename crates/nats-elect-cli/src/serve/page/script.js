// Brings the page up to date: after each event, and now and then for what passes with time. The
// server renders, so that names are escaped in one place; here nothing is put together.
"use strict";

const live = document.getElementById("live");
const link = document.getElementById("link");
const news = document.getElementById("news");
const pause = document.getElementById("pause");
const PULSE = 2000;
const SLOWEST_PULSE = 10000;
// So many changes are told by name; of more at once it is told how many they are.
const MOST_NEWS = 3;
const NEWS_PAUSE = 1000;
const PATIENCE = 10000;
const AGAIN = 5000;

let paused = false;
let failed = false;
let asking = false;
let again = false;
let timer = 0;
let title = document.title;
let asOf = link.querySelector("time");

const STATES = {
  Paused: ["◌", "doubtful"],
  Live: ["●", "good"],
  "Not connected": ["⚠", "bad"],
};

function tell() {
  const state = paused ? "Paused" : failed ? "Not connected" : "Live";
  const before = link.dataset.state;
  // Told when it changes, and not with each tick.
  if (before === "Live" && state === "Not connected") say("Not connected to the server of this page");
  if (before === "Not connected" && state === "Live") say("Connected again");
  link.dataset.state = state;
  document.title = state === "Not connected" ? `⚠ not connected · ${title}` : title;
  const [sign, kind] = STATES[state];
  const mark = document.createElement("span");
  mark.className = kind;
  const dot = document.createElement("span");
  dot.ariaHidden = "true";
  dot.textContent = sign;
  mark.append(dot, ` ${state}`);
  link.replaceChildren(mark, ", as of ", asOf);
}

async function refresh() {
  clearTimeout(timer);
  if (paused) return;
  if (asking) { again = true; return; }
  asking = true;
  const began = performance.now();
  try {
    const answer = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (fresh && !paused) {
      asOf = document.adoptNode(page.querySelector("#link time"));
      title = page.title;
      renew(live, fresh);
    }
    failed = false;
  } catch {
    failed = true;
  }
  const took = performance.now() - began;
  const pulse = Math.min(Math.max(PULSE, took * 10), SLOWEST_PULSE);
  asking = false;
  tell();
  // A page that takes long to make is asked for less often. Where nobody looks only events count:
  // the title tells of them.
  if (again || !document.hidden) timer = setTimeout(refresh, again ? 250 : pulse);
  again = false;
}

// Changes only what differs, so that focus, selection and a screen reader's place stay.
function renew(old, fresh) {
  for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const name of fresh.getAttributeNames()) {
    const value = fresh.getAttribute(name);
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const named = new Map();
  for (const child of old.children) if (child.id) named.set(child.id, child);
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    let same = child.id ? named.get(child.id) : place;
    if (!same || same.nodeName !== child.nodeName || (same.id ?? "") !== (child.id ?? "")) {
      old.insertBefore(child, place);
      continue;
    }
    if (same === place) place = place.nextSibling;
    else move(old, same, place);
    if (same.nodeType === Node.ELEMENT_NODE) renew(same, child);
    else if (same.data !== child.data) same.data = child.data;
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function move(parent, child, place) {
  const focused = child.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(child, place);
  focused?.focus({ preventScroll: true });
}

let pending = [];
let saying = 0;

// One announcement for changes that come together.
function say(text) {
  if (paused) return;
  pending.push(text);
  saying ||= setTimeout(() => {
    news.textContent = pending.length > MOST_NEWS ? `${pending.length} changes; ${title}` : pending.join("; ");
    pending = [];
    saying = 0;
  }, NEWS_PAUSE);
}

function changed(event) {
  const change = JSON.parse(event.data);
  const leader = change.to ? `${change.to.instance_id || "an instance without a name"} leads` : "nobody is known to lead";
  if (change.cause !== "found") say(`${change.role}: ${leader} (${change.cause.replaceAll("_", " ")})`);
  refresh();
}

function viewed(event) {
  const view = JSON.parse(event.data);
  say(`Bucket ${view.bucket}: ${view.current ? "current" : "stale"}`);
  refresh();
}

news.textContent = "No change since this page was opened.";
pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Resume updates" : "Pause updates";
  tell();
  refresh();
});
document.addEventListener("visibilitychange", refresh);

// A stream ends after an hour, and a browser comes back by itself; but not after an answer that is
// no stream, such as that of a proxy whose server is being restarted. Without a stream the page is
// brought up to date at each tick.
function connect() {
  const events = new EventSource("api/v1/events");
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN);
    refresh();
  });
  events.addEventListener("change", changed);
  events.addEventListener("view", viewed);
  for (const kind of ["hello", "group", "instances", "history", "reload"]) events.addEventListener(kind, refresh);
}

connect();
refresh();
