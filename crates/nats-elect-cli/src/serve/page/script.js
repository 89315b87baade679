// Brings the page up to date: after each event, and now and then for what passes with time. The
// server renders, so that names are escaped in one place; here nothing is put together.
"use strict";

const live = document.getElementById("live");
const link = document.getElementById("link");
const news = document.getElementById("news");
const pause = document.getElementById("pause");
const PULSE = 2000;

let paused = false;
let failed = false;
let asking = false;
let again = false;
let took = 0;
let timer = 0;

function tell() {
  const connected = !failed && events.readyState === EventSource.OPEN;
  const state = paused ? "Paused" : connected ? "Live" : "Not connected: reload if that lasts";
  const now = document.createElement("time");
  now.dateTime = now.textContent = live.dataset.now;
  link.replaceChildren(`${state}. As of `, now, ".");
}

async function refresh() {
  clearTimeout(timer);
  if (paused || document.hidden) return;
  if (asking) { again = true; return; }
  asking = true;
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (fresh && !paused) show(fresh);
    failed = false;
  } catch {
    failed = true;
  }
  took = performance.now() - began;
  asking = false;
  tell();
  // A page that takes long to make is asked for less often.
  timer = setTimeout(refresh, again ? 250 : Math.max(PULSE, took * 10));
  again = false;
}

function show(fresh) {
  const focused = document.activeElement?.id;
  const scrolled = new Map();
  for (const region of live.querySelectorAll(".wide")) scrolled.set(region.id, region.scrollLeft);
  live.dataset.now = fresh.dataset.now;
  live.replaceChildren(...fresh.childNodes);
  for (const [id, left] of scrolled) {
    const region = document.getElementById(id);
    if (region) region.scrollLeft = left;
  }
  if (focused && document.activeElement?.id !== focused) {
    document.getElementById(focused)?.focus({ preventScroll: true });
  }
}

function changed(event) {
  const change = JSON.parse(event.data);
  const leader = change.to ? `${change.to.instance_id || "an instance without a name"} leads` : "nobody is known to lead";
  if (!paused) news.textContent = `${change.role}: ${leader} (${change.cause.replaceAll("_", " ")})`;
  refresh();
}

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Resume updates" : "Pause updates";
  tell();
  refresh();
});
document.addEventListener("visibilitychange", refresh);

const events = new EventSource("api/v1/events");
events.addEventListener("open", tell);
events.addEventListener("error", tell);
events.addEventListener("change", changed);
for (const kind of ["view", "instances", "history", "reload"]) events.addEventListener(kind, refresh);
refresh();
