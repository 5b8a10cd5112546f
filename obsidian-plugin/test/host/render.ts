/** One piece of a rendered note. */
export interface Section {
  readonly el: HTMLElement;
  readonly lineStart: number;
  readonly lineEnd: number;
}

/** Renders a note as sections, like reading view: fences, quotes with fences in them, headings, paragraphs and embedded pictures, whose addresses image knows. Text is text. */
export function render(text: string, image: (path: string) => string | undefined): Section[] {
  const lines = text.split("\n");
  const out: Section[] = [];
  for (let i = 0; i < lines.length; i++) {
    const el = document.createElement("div");
    const start = i;
    const line = lines[i] ?? "";
    if (/^```/.test(line)) {
      const mark = /^`+/.exec(line)?.[0] ?? "```";
      const body: string[] = [];
      for (i++; i < lines.length && lines[i] !== mark; i++) body.push(lines[i] ?? "");
      el.append(pre(line.slice(mark.length), body));
    } else if (line.startsWith(">")) {
      const body: string[] = [];
      for (; (lines[i] ?? "").startsWith(">"); i++) body.push((lines[i] ?? "").replace(/^> ?/, ""));
      i--;
      const title = /^\[!([\w-]+)\][+-]? ?(.*)$/.exec(body[0] ?? "");
      const quote = el.appendChild(document.createElement("blockquote"));
      if (title !== null) {
        quote.className = "callout";
        quote.dataset["callout"] = title[1] ?? "";
        quote.appendChild(document.createElement("div")).textContent = title[2] ?? "";
        body.shift();
      }
      for (const s of render(body.join("\n"), image)) quote.append(...Array.from(s.el.childNodes));
    } else if (/^!\[\[[^\]]+\]\]$/.test(line)) {
      const path = line.slice(3, -2);
      const src = image(path);
      if (src === undefined) el.textContent = `${path} could not be found.`;
      else Object.assign(el.appendChild(document.createElement("img")), { alt: path, src });
    } else if (line !== "") {
      const heading = /^(#+) (.*)/.exec(line);
      const parent = el.appendChild(document.createElement(heading === null ? "p" : `h${String(heading[1]?.length ?? 1)}`));
      for (const part of (heading?.[2] ?? line).split(/(\[[^\]]*\]\([^)\s]*\))/)) {
        const link = /^\[([^\]]*)\]\(([^)\s]*)\)$/.exec(part);
        if (link === null) parent.append(part);
        else Object.assign(parent.appendChild(document.createElement("a")), { textContent: link[1], href: link[2] });
      }
    } else continue;
    out.push({ el, lineStart: start, lineEnd: i });
  }
  return out;
}

function pre(info: string, body: string[]): HTMLElement {
  const p = document.createElement("pre");
  const code = p.appendChild(document.createElement("code"));
  const language = info.trim().split(/[\s{]/)[0] ?? "";
  if (language !== "") code.className = `language-${language}`;
  code.textContent = body.map((l) => l + "\n").join("");
  return p;
}
