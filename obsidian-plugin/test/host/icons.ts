// Some of the icons that Obsidian has, which are those of Lucide (ISC licence, lucide.dev).
const icons: Readonly<Record<string, string>> = {
  copy: '<rect width="14" height="14" x="8" y="8" rx="2"/><path d="M4 16c-1.1 0-2-.9-2-2V4c0-1.1.9-2 2-2h10c1.1 0 2 .9 2 2"/>',
  eraser: '<path d="m7 21-4.3-4.3c-1-1-1-2.5 0-3.4l9.6-9.6c1-1 2.5-1 3.4 0l5.6 5.6c1 1 1 2.5 0 3.4L13 21M22 21H7m-2-10 9 9"/>',
  "list-video": '<path d="M12 12H3m13-6H3m9 12H3m13-6 5 3-5 3v-6Z"/>',
  play: '<polygon points="6 3 20 12 6 21 6 3"/>',
  "rotate-ccw": '<path d="M3 12a9 9 0 1 0 9-9 9.75 9.75 0 0 0-6.74 2.74L3 8m0-5v5h5"/>',
  "scan-eye": '<path d="M3 7V5a2 2 0 0 1 2-2h2m10 0h2a2 2 0 0 1 2 2v2m0 10v2a2 2 0 0 1-2 2h-2M7 21H5a2 2 0 0 1-2-2v-2"/><circle cx="12" cy="12" r="1"/>',
  square: '<rect width="18" height="18" x="3" y="3" rx="2"/>',
  "square-terminal": '<path d="m7 11 2-2-2-2m4 6h4"/><rect width="18" height="18" x="3" y="3" rx="2"/>',
  trash: '<path d="M3 6h18m-2 0v14c0 1-1 2-2 2H7c-1 0-2-1-2-2V6m3 0V4c0-1 1-2 2-2h4c1 0 2 1 2 2v2"/>',
};

/** Draws an icon, as the host does. An unknown one is an error here, and nothing in the host. */
export function drawIcon(el: HTMLElement, icon: string): void {
  const shapes = icons[icon];
  if (shapes === undefined) throw new Error(`there is no icon ${icon}`);
  const text = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" class="svg-icon lucide-${icon}">${shapes}</svg>`;
  el.replaceChildren(document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true));
}
