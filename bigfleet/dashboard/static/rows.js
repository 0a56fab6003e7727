// Tables by keyboard, drawers for what lies behind a row, ids that can be copied.
//
// A row with data-open names a page; Enter or a click shows that page's article in a drawer, Escape closes it and the
// focus returns. Without this script the same address is a link in the row.
const drawer = document.getElementById("drawer");
const body = drawer?.querySelector(".body");
let from = null;

function rowsOf(row) {
  return [...row.closest("table").querySelectorAll("tr[data-open]")];
}

document.addEventListener("keydown", (event) => {
  const row = event.target.closest?.("tr[data-open]");
  if (!row || event.target.closest("a, button, input")) return;
  const all = rowsOf(row);
  const to = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
  if (to) {
    all[Math.min(all.length - 1, Math.max(0, all.indexOf(row) + to))].focus();
  } else if (event.key === "Home" || event.key === "End") {
    all.at(event.key === "Home" ? 0 : -1).focus();
  } else if (event.key === "Enter" || event.key === " ") {
    show(row);
  } else return;
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const copy = event.target.closest?.("[data-copy]");
  if (copy) {
    navigator.clipboard?.writeText(copy.dataset.copy).then(() => {
      copy.textContent = "copied";
    });
    return;
  }
  const link = event.target.closest?.("a[data-drawer]");
  const row = event.target.closest?.("tr[data-open]");
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (link) {
    event.preventDefault();
    show(link.closest("tr[data-open]") || link, link.href);
  } else if (row && !event.target.closest("a, button, input") && !String(getSelection())) show(row);
});

async function show(opener, address) {
  from = opener.dataset.key || null;
  body.textContent = "Asking the shard …";
  if (!drawer.open) drawer.showModal();
  try {
    const answer = await fetch(address || opener.dataset.open, { headers: { "X-Part": "main" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const article = page.querySelector("article") || page.querySelector("main") || page.body;
    body.replaceChildren(...article.childNodes);
  } catch (error) {
    body.textContent = `No answer: ${error.message}`;
  }
}

drawer?.querySelector(".close").addEventListener("click", () => drawer.close());
drawer?.addEventListener("click", (event) => event.target === drawer && drawer.close());
drawer?.addEventListener("close", () => {
  body.replaceChildren();
  if (from) document.querySelector(`[data-key="${CSS.escape(from)}"]`)?.focus();
});

// One row of a long table is in the tab order; arrow keys go on from there.
function rove() {
  for (const table of document.querySelectorAll("tbody")) {
    const rows = [...table.querySelectorAll("tr[data-open]")];
    rows.forEach((row, place) => {
      row.tabIndex = place === 0 ? 0 : -1;
    });
  }
}
document.addEventListener("focusin", (event) => {
  const row = event.target.closest?.("tr[data-open]");
  if (!row) return;
  for (const other of rowsOf(row)) other.tabIndex = other === row ? 0 : -1;
});
document.addEventListener("bigfleet:refreshed", rove);
rove();

// Filters take effect when they change; without this script their button does it.
for (const form of document.querySelectorAll("form.filters"))
  form.addEventListener("change", () => form.requestSubmit());
