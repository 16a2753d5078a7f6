// Sets light or dark before anything is drawn; without a choice the system's is taken.
(() => {
  const KEY = "pyromq-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const apply = () => { root.dataset.theme = chosen() || (system.matches ? "dark" : "light"); };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", () => {
      const next = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem(KEY, next); } catch { /* it lasts as long as the page */ }
      root.dataset.theme = next;
    });
  });
})();
