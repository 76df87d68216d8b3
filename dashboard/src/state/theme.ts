// Light or dark: as the system says, unless the reader chose.

export type Theme = "auto" | "light" | "dark";

const KEY = "pykueue-theme";

export function storedTheme(): Theme {
  try {
    const found = localStorage.getItem(KEY);
    return found === "light" || found === "dark" ? found : "auto";
  } catch {
    return "auto";
  }
}

export function showTheme(theme: Theme): void {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
}

export function storeTheme(theme: Theme): void {
  showTheme(theme);
  try {
    if (theme === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Storage is switched off: the choice holds until the page is closed.
  }
}
