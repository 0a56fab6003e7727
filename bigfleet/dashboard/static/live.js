// Keeps the page fresh: asks for its own address again and puts in what has changed.
//
// The server renders every page; nothing is rendered twice. A notice on the event stream asks at once, at most every two
// seconds; without notices the page's own interval counts. A hidden tab asks nothing. Failures back off to a minute and
// say how old the page is.
const main = document.querySelector("main");
const every = Number(main.dataset.every || 15) * 1000;
const least = 2000;
const longest = 60000;
let asked = 0;
let seen = Date.now();
let failures = 0;
let timer = 0;
let running = false;

function plan(wait) {
  clearTimeout(timer);
  timer = setTimeout(refresh, wait);
}

function busy() {
  const active = document.activeElement;
  return document.querySelector("dialog[open]") || (active && main.contains(active) && active.matches("input, select, textarea"));
}

async function refresh() {
  if (document.hidden || running) return;
  if (busy()) return plan(every);
  running = true;
  asked = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { "X-Part": "main" }, redirect: "error" });
    if (!answer.ok) throw new Error(String(answer.status));
    take(await answer.text());
    seen = Date.now();
    failures = 0;
    banner("");
    plan(every);
  } catch (error) {
    failures += 1;
    const age = Math.round((Date.now() - seen) / 1000);
    banner(`The dashboard does not answer (${error.message}). What you see is ${age} s old.`);
    plan(Math.min(longest, every * 2 ** failures));
  } finally {
    running = false;
  }
}

function take(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const part of fresh.querySelectorAll("[data-live]")) {
    const old = main.querySelector(`[data-live="${CSS.escape(part.dataset.live)}"]`);
    if (!old || old.innerHTML === part.innerHTML) continue;
    swap(old, part);
  }
  const said = fresh.querySelector("[data-state]");
  const live = document.getElementById("said");
  if (said && live.dataset.state !== said.dataset.state) {
    if (live.dataset.state) live.textContent = `The fleet is now ${said.dataset.state}: ${said.textContent}`;
    live.dataset.state = said.dataset.state;
  }
  document.dispatchEvent(new CustomEvent("bigfleet:refreshed"));
}

function swap(old, part) {
  const before = new Map();
  for (const cell of old.querySelectorAll("[data-cell]")) before.set(cell.dataset.cell, cell.textContent);
  const focused = document.activeElement?.closest?.("[data-key]")?.dataset.key;
  const open = [...old.querySelectorAll("details[open] > summary")].map((summary) => summary.parentElement.dataset.key);
  old.replaceChildren(...part.childNodes);
  for (const details of old.querySelectorAll("details[data-key]")) details.open = open.includes(details.dataset.key);
  if (focused) old.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  for (const cell of old.querySelectorAll("[data-cell]")) {
    const was = before.get(cell.dataset.cell);
    if (was === undefined || was === cell.textContent) continue;
    cell.classList.add("changed");
    setTimeout(() => cell.classList.remove("changed"), 2000);
  }
}

function banner(text) {
  const place = document.getElementById("stale");
  place.textContent = text;
  place.hidden = !text;
}

if (main.dataset.every) {
  const stream = new EventSource(document.body.dataset.stream);
  for (const kind of ["cycle", "report", "event"])
    stream.addEventListener(kind, () => plan(Math.max(0, asked + least - Date.now())));
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  addEventListener("pagehide", () => stream.close());
  plan(every);
}
