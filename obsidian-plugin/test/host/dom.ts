/** The helpers that Obsidian adds to the DOM, as far as the plugin uses them. */
interface Info {
  cls?: string | string[];
  text?: string;
  attr?: Record<string, string | number | boolean | null>;
}

function make(tag: string, info?: Info | string): HTMLElement {
  const el = document.createElement(tag);
  const o = typeof info === "string" ? { cls: info } : (info ?? {});
  if (o.cls !== undefined) el.classList.add(...[o.cls].flat().flatMap((c) => c.split(" ")).filter((c) => c !== ""));
  if (o.text !== undefined) el.textContent = o.text;
  for (const [k, v] of Object.entries(o.attr ?? {})) if (v !== null) el.setAttribute(k, String(v));
  return el;
}

export function augment(): void {
  const child = function (this: Node, tag: string, info?: Info | string): HTMLElement {
    return this.appendChild(make(tag, info));
  };
  for (const proto of [HTMLElement.prototype, DocumentFragment.prototype]) {
    Object.assign(proto, {
      createEl: child,
      createDiv(this: Node, info?: Info | string) {
        return child.call(this, "div", info);
      },
      createSpan(this: Node, info?: Info | string) {
        return child.call(this, "span", info);
      },
      empty(this: Element) {
        this.replaceChildren();
      },
      setText(this: Node, text: string) {
        this.textContent = text;
      },
    });
  }
  Object.assign(HTMLElement.prototype, {
    addClass(this: HTMLElement, ...c: string[]) {
      this.classList.add(...c);
    },
    removeClass(this: HTMLElement, ...c: string[]) {
      this.classList.remove(...c);
    },
    toggleClass(this: HTMLElement, c: string, on: boolean) {
      this.classList.toggle(c, on);
    },
    setAttr(this: HTMLElement, k: string, v: string) {
      this.setAttribute(k, v);
    },
    setAttrs(this: HTMLElement, o: Record<string, string>) {
      for (const [k, v] of Object.entries(o)) this.setAttribute(k, v);
    },
    setCssProps(this: HTMLElement, o: Record<string, string>) {
      for (const [k, v] of Object.entries(o)) this.style.setProperty(k, v);
    },
  });
  Object.assign(Element.prototype, {
    hasClass(this: Element, c: string) {
      return this.classList.contains(c);
    },
  });
  Object.assign(Node.prototype, {
    instanceOf(this: Node, type: new () => Node) {
      return this instanceof type;
    },
  });
  Object.defineProperty(Node.prototype, "win", { get: () => window });
  Object.defineProperty(Node.prototype, "doc", { get: () => document });
  Object.assign(window, {
    activeDocument: document,
    activeWindow: window,
    createEl: make,
    createDiv: (i?: Info) => make("div", i),
    createSpan: (i?: Info) => make("span", i),
    createFragment: () => document.createDocumentFragment(),
  });
}
