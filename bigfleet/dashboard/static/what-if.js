// Asks the what-if question of the form and draws the difference.
const form = document.getElementById("what-if");
const result = document.getElementById("result");

// What each form of a common edit writes to the list; the words of the list are those of the edit files.
const EDITS = {
  add_machines: (given) => ({ edit: "add_machines", count: Number(given.count), like: given.like }),
  remove_machines: (given) => ({ edit: "remove_machines", where: { instance_type: given.type, ...(given.zone && { zone: given.zone }) } }),
  lose_zone: (given) => ({ edit: "lose_zone", zone: given.zone }),
  lose_provider: (given) => ({ edit: "lose_provider", provider: given.provider }),
  price: (given) => ({ edit: "change_machines", where: { instance_type: given.type }, multiply_price: Number(given.factor) }),
  priority: (given) => ({ edit: "change_needs", where: { cluster: given.cluster }, to: { priority: Number(given.priority) } }),
  scale: (given) => ({ edit: "change_needs", where: { cluster: given.cluster }, scale: Number(given.factor) }),
  drop: (given) => ({ edit: "remove_needs", where: { cluster: given.cluster } }),
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

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
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
    for (const cell of row) line.append(element("td", cell === null || cell === "" ? "—" : String(cell)));
    body.append(line);
  }
  made.append(body);
  const box = element("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": caption });
  box.append(made);
  return box;
}

function amounts(value) {
  return Object.entries(value || {}).map(([name, quantity]) => `${quantity} ${name}`).join(", ");
}

function side(value) {
  if (!value) return "not there";
  if (value.satisfied !== undefined) return value.satisfied ? "satisfied" : `short ${amounts(value.deficit)}`;
  return [value.action || value.state, value.cluster].filter(Boolean).join(" for ");
}

function draw(answer, shard) {
  const card = element("section", null, { class: "card wide" });
  card.append(element("h2", answer.same ? "No difference" : "The difference"));
  if (!answer.same) {
    const cost = answer.cost_per_hour.total;
    card.append(element("p", `$${cost.before.toFixed(2)}/h becomes $${cost.after.toFixed(2)}/h.`));
    if (answer.needs.length)
      card.append(
        table("Needs that fare differently", ["cluster", "gang", "priority", "change", "before", "after"],
          answer.needs.map((row) => [row.cluster, row.group, row.priority, row.change, side(row.before), side(row.after)])),
      );
    if (answer.machines.length)
      card.append(
        table("Machines treated differently", ["count", "type", "zone", "before", "after", "machines"],
          answer.machines.map((row) => [row.count, row.instance_type, row.zone, side(row.before), side(row.after), (row.machines || []).slice(0, 3).join(", ")])),
      );
    card.append(
      table("Figures", ["figure", "before", "after"],
        [
          ...Object.entries(answer.actions).filter(([, pair]) => pair.before || pair.after).map(([kind, pair]) => [`${kind} actions`, pair.before, pair.after]),
          ...Object.entries(answer.shortfalls).map(([name, pair]) => [`needs short, ${name}`, pair.before, pair.after]),
          ...Object.entries(answer.missing).map(([name, pair]) => [`${name} missing`, pair.before, pair.after]),
          ["$/h exposed to interruption", answer.interruption_exposure_per_hour.before, answer.interruption_exposure_per_hour.after],
        ]),
    );
  }
  card.append(element("p", "The same on the command line:"));
  card.append(element("code", `bigfleet snapshot --shard ${shard} > snapshot.json && bigfleet what-if snapshot.json --edit edits.json`));
  const raw = element("details", null);
  raw.append(element("summary", "as JSON"), element("pre", JSON.stringify(answer, null, 2), { tabindex: "0" }));
  card.append(raw);
  result.replaceChildren(card);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = new FormData(form);
  let edits;
  try {
    edits = list();
  } catch (error) {
    complain(`Edits: ${error.message}`);
    return;
  }
  history.replaceState(null, "", `?${new URLSearchParams({ shard: fields.get("shard"), edits: JSON.stringify(edits) })}`);
  result.replaceChildren(element("p", "The engine decides twice …"));
  try {
    const answer = await fetch(form.dataset.ask, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ shard: fields.get("shard"), edits }),
    });
    const told = await answer.json();
    if (!answer.ok) complain(told.error);
    else draw(told, fields.get("shard"));
  } catch (error) {
    complain(`No answer: ${error.message}`);
  }
});
