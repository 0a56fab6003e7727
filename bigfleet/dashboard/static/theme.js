// Light or dark: the system's choice until the reader makes one, which this browser remembers.
const key = "bigfleet-theme";
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

function shown() {
  return root.dataset.theme || (system.matches ? "dark" : "light");
}

function label(button) {
  const next = shown() === "dark" ? "light" : "dark";
  button.textContent = next === "dark" ? "Dark theme" : "Light theme";
}

root.dataset.scripts = "on"; // what needs them is hidden without

const kept = localStorage.getItem(key);
if (kept === "dark" || kept === "light") root.dataset.theme = kept;

// One button opens the navigation where it has no room; without scripts it is always open.
for (const button of document.querySelectorAll("[data-menu]"))
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
  });

for (const button of document.querySelectorAll("[data-theme-toggle]")) {
  button.hidden = false;
  label(button);
  button.addEventListener("click", () => {
    root.dataset.theme = shown() === "dark" ? "light" : "dark";
    localStorage.setItem(key, root.dataset.theme);
    label(button);
  });
  system.addEventListener("change", () => label(button));
}
