// Light, dark or what the system says; other scripts ask conwalk.colour and listen to conwalk.onTheme.
window.conwalk = window.conwalk || {};
(function (conwalk) {
  "use strict";
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];

  // Pages opened from disk may be refused a store.
  function remembered() {
    try { return localStorage.getItem("conwalk-theme") || "auto"; } catch { return "auto"; }
  }
  function remember(choice) {
    try { localStorage.setItem("conwalk-theme", choice); } catch { /* it lasts for this visit */ }
  }

  function apply(choice) {
    const before = root.dataset.dark;
    root.dataset.theme = choice;
    root.dataset.dark = choice === "dark" || (choice === "auto" && system.matches) ? "yes" : "no";
    if (before !== undefined && before !== root.dataset.dark) listeners.forEach((listener) => listener());
  }

  conwalk.isDark = () => root.dataset.dark === "yes";
  conwalk.colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  conwalk.onTheme = (listener) => listeners.push(listener);

  apply(remembered());
  system.addEventListener("change", () => apply(root.dataset.theme));
  document.addEventListener("DOMContentLoaded", () => {
    const switcher = document.getElementById("theme-switch");
    switcher.hidden = false;
    for (const input of switcher.querySelectorAll("input")) {
      input.checked = input.value === root.dataset.theme;
      input.addEventListener("change", () => { remember(input.value); apply(input.value); });
    }
  });
})(window.conwalk);
