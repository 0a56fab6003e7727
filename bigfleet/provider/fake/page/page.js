"use strict";

// The forms are made from /verbs, the table of the server; no verb is named here.
const byId = (id) => document.getElementById(id);
let verbs = [];

function input(verb, name, value) {
  const label = document.createElement("label");
  label.htmlFor = `f-${name}`;
  label.textContent = name + (verb.required.includes(name) ? " *" : "");
  let field;
  if (typeof value === "boolean") {
    field = document.createElement("input");
    field.type = "checkbox";
    field.checked = value;
  } else if (value !== null && typeof value === "object") {
    field = document.createElement("textarea");
    field.value = JSON.stringify(value);
  } else {
    field = document.createElement("input");
    field.value = value === null ? "" : String(value);
  }
  field.id = label.htmlFor;
  field.name = name;
  field.required = verb.required.includes(name);
  return [label, field];
}

function read(verb, field) {
  const usual = verb.fields[field.name];
  if (field.type === "checkbox") return field.checked;
  if (field.value === "" && usual === null) return undefined;
  if (usual !== null && typeof usual === "object") return JSON.parse(field.value || "null");
  if (typeof usual === "string") return field.value;
  // A number where one was expected, else what JSON makes of it, else the text itself.
  try { return JSON.parse(field.value); } catch { return field.value; }
}

function show(name) {
  const verb = verbs.find((one) => one.name === name);
  byId("about").textContent = verb.about;
  const form = byId("form");
  form.replaceChildren();
  for (const [field, value] of Object.entries(verb.fields)) form.append(...input(verb, field, value));
  const button = document.createElement("button");
  button.textContent = verb.changes ? `Do: ${verb.name}` : `Show: ${verb.name}`;
  form.append(button);
}

async function submit(event) {
  event.preventDefault();
  const verb = verbs.find((one) => one.name === byId("verb").value);
  const body = {};
  const out = byId("answer");
  out.classList.remove("bad");
  try {
    for (const field of byId("form").querySelectorAll("input, textarea")) {
      const value = read(verb, field);
      if (value !== undefined) body[field.name] = value;
    }
    out.textContent = await ask(verb, body);
  } catch (problem) {
    out.classList.add("bad");
    out.textContent = problem.message;
  }
  await present();
}

async function ask(verb, body) {
  let path = `/${verb.name}`;
  const options = {method: verb.changes ? "POST" : "GET"};
  if (verb.changes) {
    options.headers = {"Content-Type": "application/json"};
    options.body = JSON.stringify(body);
  } else {
    path += `?${new URLSearchParams(body)}`;
  }
  const answer = await fetch(path, options);
  const text = await answer.text();
  if (!answer.ok) throw new Error(JSON.parse(text).error);
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

async function present() {
  const answer = await fetch("/stats");
  const stats = await answer.json();
  if (!answer.ok) { byId("summary").textContent = stats.error; return; }
  byId("summary").textContent = Object.entries(stats.machines)
    .filter(([, count]) => count).map(([state, count]) => `${count} ${state}`).join(", ") || "no machines";
  byId("present").textContent = JSON.stringify(stats, null, 2);
}

async function begin() {
  verbs = await (await fetch("/verbs")).json();
  const chooser = byId("verb");
  for (const verb of verbs) chooser.append(new Option(verb.name, verb.name));
  chooser.addEventListener("change", () => show(chooser.value));
  byId("form").addEventListener("submit", submit);
  show(chooser.value);
  await present();
}

begin();
