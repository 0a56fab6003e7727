// Asks the what-if question of the form, draws the difference, and explains its rows inside the changed world.
const form = document.getElementById("what-if");
const result = document.getElementById("result");
const drawer = document.getElementById("drawer");

// What each form of a common edit writes to the list; the words of the list are those of the edit files.
const EDITS = {
  add_machines: (given) => ({ edit: "add_machines", count: Number(given.count), like: given.like }),
  remove_machines: (given) => ({ edit: "remove_machines", where: { instance_type: given.type, ...(given.zone && { zone: given.zone }) } }),
  lose_zone: (given) => ({ edit: "lose_zone", zone: given.zone }),
  lose_provider: (given) => ({ edit: "lose_provider", provider: given.provider }),
  price: (given) => ({ edit: "change_machines", where: { instance_type: given.type }, multiply_price: Number(given.factor) }),
  risk: (given) => ({ edit: "change_machines", where: { instance_type: given.type }, to: { interruption_probability: Number(given.probability) } }),
  priority: (given) => ({ edit: "change_needs", where: { cluster: given.cluster }, to: { priority: Number(given.priority) } }),
  scale: (given) => ({ edit: "change_needs", where: { cluster: given.cluster }, scale: Number(given.factor) }),
  drop: (given) => ({ edit: "remove_needs", where: { cluster: given.cluster } }),
  holds: (given) => ({ edit: "set_idle_holds", on_demand: Number(given.on_demand), spot: Number(given.spot) }),
  pass_time: (given) => ({ edit: "pass_time", seconds: Number(given.seconds) }),
};

function list() {
  const edits = JSON.parse(form.elements.edits.value || "[]");
  if (!Array.isArray(edits)) throw new Error("a list is wanted");
  return edits;
}

function write(edits) {
  form.elements.edits.value = edits.length ? `[\n${edits.map((edit) => `  ${JSON.stringify(edit)}`).join(",\n")}\n]` : "[]";
}

function change(how) {
  try {
    write(how(list()));
  } catch (error) {
    complain(`Edits: ${error.message}`);
  }
}

function complain(text) {
  result.replaceChildren(element("p", text, { class: "banner bad", role: "alert" }));
}

for (const box of document.querySelectorAll("[data-edit]"))
  box.querySelector("button").addEventListener("click", () => {
    const given = Object.fromEntries([...box.querySelectorAll("input")].map((input) => [input.name, input.value.trim()]));
    change((edits) => [...edits, EDITS[box.dataset.edit](given)]);
  });
document.getElementById("undo").addEventListener("click", () => change((edits) => edits.slice(0, -1)));

// The server writes out invisible characters and isolates right-to-left words on its pages; this does it for what is drawn here.
const INVISIBLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\ud800-\udfff]/gu;
const RIGHT_TO_LEFT = /([\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]+(?:[ ._-]?[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]+)*)/u;

function visible(text) {
  return text.replace(INVISIBLE, (found) => {
    const point = found.codePointAt(0).toString(16);
    if (point.length <= 2) return `\\x${point.padStart(2, "0")}`;
    return point.length <= 4 ? `\\u${point.padStart(4, "0")}` : `\\U${point.padStart(8, "0")}`;
  });
}

function isolated(text) {
  const parts = visible(text).split(RIGHT_TO_LEFT);
  return parts.map((part, place) => {
    if (place % 2 === 0) return document.createTextNode(part);
    const made = document.createElement("bdi");
    made.textContent = part;
    return made;
  });
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== null) made.append(...isolated(String(text)));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function cell(value) {
  if (value instanceof Node) {
    const made = element("td", null);
    made.append(value);
    return made;
  }
  return element("td", value === null || value === undefined || value === "" ? "—" : String(value));
}

function table(caption, columns, rows) {
  const made = element("table", null);
  made.append(element("caption", caption));
  const head = element("tr", null);
  for (const column of columns) head.append(element("th", column, { scope: "col" }));
  made.append(element("thead", null));
  made.tHead.append(head);
  const body = element("tbody", null);
  for (const row of rows) {
    const line = element("tr", null);
    line.append(...row.map(cell));
    body.append(line);
  }
  made.append(body);
  const box = element("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": caption });
  box.append(made);
  return box;
}

// Every table of the page has a header cell for its last column too, as the button in it is found by its own name.
function why(question, what, name) {
  const button = element("button", "Explain", { type: "button", "aria-label": visible(`Explain ${name} in the changed world`) });
  button.addEventListener("click", () => explain({ ...question, explain: what }));
  return button;
}

function amounts(value) {
  return Object.entries(value || {}).map(([name, quantity]) => `${quantity} ${name}`).join(", ");
}

function fares(side) {
  if (!side) return "not there";
  if (!side.satisfied) return `short ${amounts(side.deficit)}`;
  return `satisfied, ${side.machine_count} ${side.machine_count === 1 ? "machine" : "machines"}${side.domain ? ` in ${side.domain}` : ""}`;
}

function number(value) {
  return typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 2 }) : value;
}

function some(shown, total, noun) {
  return shown < total ? `the first ${number(shown)} of ${number(total)} ${noun}` : `${number(total)} ${noun}`;
}

function way(horizon) {
  if (horizon.until !== "quiet") return "One cycle was compared: what would be started.";
  const side = (name) => `${horizon.quiet[name] ? "rests" : "does not rest yet"} after ${horizon.cycles[name]} ${horizon.cycles[name] === 1 ? "cycle" : "cycles"}, ${number(horizon.seconds[name])} s`;
  return `As it is, the fleet ${side("before")}; changed, it ${side("after")}.`;
}

function draw(answer, question) {
  const card = element("section", null, { class: "card wide" });
  card.append(element("h2", answer.same ? "No difference" : "The difference"));
  const base = answer.base.cycle ? `Asked of shard ${answer.base.shard}, cycle ${number(answer.base.cycle)}. ` : "";
  card.append(element("p", base + way(answer.horizon), { class: "dim" }));
  if (!answer.same) {
    const cost = answer.cost_per_hour.total;
    card.append(element("p", cost.before === cost.after ? `$${cost.before.toFixed(2)}/h stays.` : `$${cost.before.toFixed(2)}/h becomes $${cost.after.toFixed(2)}/h.`));
    if (answer.needs.length)
      card.append(
        table(`Needs that fare differently: ${some(answer.needs.length, answer.totals.needs, "in all")}`, ["cluster", "gang", "priority", "change", "before", "after", "why"],
          answer.needs.map((row) => [row.cluster, row.group, number(row.priority), row.change, fares(row.before), fares(row.after),
            row.after ? why(question, { need: row.needs[0] }, `${row.cluster}${row.group ? `/${row.group}` : ""}`) : null])),
      );
    if (answer.machines.length)
      card.append(
        table(`Machines treated differently: ${some(answer.machines.length, answer.totals.machine_rows, "kinds")}, ${number(answer.totals.machines)} machines`, ["count", "type", "zone", "before", "after", "machines", "why"],
          answer.machines.map((row) => [number(row.count), `${row.instance_type} ${row.capacity_type}`, row.zone, row.before, row.after,
            row.machines.slice(0, 3).join(", ") + (row.count > 3 ? ", …" : ""),
            row.after === "not there" ? null : why(question, { machine: row.machines[0] }, row.machines[0])])),
      );
    card.append(
      table("Figures", ["figure", "before", "after"],
        [
          ...Object.entries(answer.actions).filter(([, pair]) => pair.before || pair.after).map(([kind, pair]) => [`${kind} actions`, number(pair.before), number(pair.after)]),
          ...Object.entries(answer.shortfalls).map(([name, pair]) => [`needs short, ${name}`, number(pair.before), number(pair.after)]),
          ...Object.entries(answer.missing).map(([name, pair]) => [`${name} missing`, pair.before, pair.after]),
          ["$/h exposed to interruption", number(answer.interruption_exposure_per_hour.before), number(answer.interruption_exposure_per_hour.after)],
        ]),
    );
  }
  card.append(element("p", "The same on the command line:"));
  card.append(element("pre", command(answer, question), { tabindex: "0" }));
  const raw = element("details", null);
  raw.append(element("summary", "as JSON"), element("pre", JSON.stringify(answer, null, 2), { tabindex: "0" }));
  card.append(raw);
  const file = new Blob([JSON.stringify(answer)], { type: "application/json" });
  card.append(element("a", "Save as JSON", { download: "what-if.json", href: URL.createObjectURL(file) }));
  result.replaceChildren(card);
}

function command(answer, question) {
  const horizon = question.horizon;
  const flags = [
    horizon.until === "quiet" ? " --until-quiet" : "",
    horizon.create_seconds ? ` --create-time ${horizon.create_seconds}s` : "",
    horizon.drain_seconds ? ` --drain-time ${horizon.drain_seconds}s` : "",
  ].join("");
  const fetched = answer.base.address ? `bigfleet snapshot --shard ${answer.base.address} > snapshot.json\n` : "";
  return `${fetched}bigfleet what-if snapshot.json --edit -${flags} <<'EDITS'\n${JSON.stringify({ edits: question.edits }, null, 1)}\nEDITS`;
}

async function post(question) {
  const answer = await fetch(form.dataset.ask, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(question),
  });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error);
  return told;
}

async function explain(question) {
  const body = drawer.querySelector(".body");
  body.replaceChildren(element("p", "The engine decides once more …"));
  if (!drawer.open) drawer.showModal();
  try {
    const told = await post(question);
    body.replaceChildren(
      element("h2", told.title[0].toUpperCase() + told.title.slice(1)),
      element("p", "In the changed world:", { class: "dim" }),
      element("b", told.explanation.sentence),
      ...told.tables.map((part) => table(part.title, part.columns, part.rows)),
    );
  } catch (error) {
    body.replaceChildren(element("p", error.message, { class: "banner bad", role: "alert" }));
  }
}

async function base(fields) {
  const file = fields.get("file");
  if (file && file.size) return { snapshot: JSON.parse(await file.text()) };
  return { shard: fields.get("shard") };
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = new FormData(form);
  const horizon = { until: fields.get("until"), create_seconds: Number(fields.get("create")), drain_seconds: Number(fields.get("drain")) };
  let question;
  try {
    question = { ...(await base(fields)), edits: list(), horizon };
  } catch (error) {
    complain(`Edits: ${error.message}`);
    return;
  }
  const kept = { shard: fields.get("shard") || "", edits: JSON.stringify(question.edits), until: horizon.until, create: fields.get("create"), drain: fields.get("drain") };
  history.replaceState(null, "", `?${new URLSearchParams(kept)}`);
  result.replaceChildren(element("p", "The engine decides twice …"));
  try {
    const told = await post(question);
    // What is asked next about this answer is asked of the same cycle.
    draw(told, told.base.cycle ? { ...question, cycle: told.base.cycle } : question);
  } catch (error) {
    complain(error.message);
  }
});
