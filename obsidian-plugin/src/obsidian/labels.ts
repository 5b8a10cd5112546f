/** Gives the controls of settings the names that stand beside them, for who does not see that; the host does not. */
export function labelSettings(parent: HTMLElement): void {
  for (const item of Array.from(parent.querySelectorAll<HTMLElement>(".setting-item"))) {
    const name = item.querySelector(".setting-item-name")?.textContent ?? "";
    if (name === "") continue;
    for (const control of Array.from(item.querySelectorAll("input, select, textarea, button"))) {
      if (control.hasAttribute("aria-label")) continue;
      control.setAttribute("aria-label", control.instanceOf(HTMLButtonElement) ? `${control.textContent}: ${name}` : name);
    }
  }
}
