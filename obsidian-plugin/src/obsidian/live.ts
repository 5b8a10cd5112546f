import { StateField, type EditorState, type Extension, type Text, type Transaction } from "@codemirror/state";
import { Decoration, EditorView, WidgetType, type DecorationSet } from "@codemirror/view";
import { editorInfoField, editorLivePreviewField } from "obsidian";
import { findFences, maybeFence, type Fence } from "../fences.js";
import { shownOf } from "../request.js";
import type { BlockRun, Target } from "../runner.js";
import { hasButton } from "../settings.js";
import { BlockPanel, type PanelHost } from "./panel.js";

/** One fence of an editor, the same object while the text around it changes. */
class Tracked {
  run: BlockRun | undefined;
  constructor(readonly language: string) {}
}

interface Place {
  readonly fence: Tracked;
  /** Offsets of the begin of the opening line and the end of the closing one. */
  readonly from: number;
  readonly to: number;
}

interface Value {
  readonly live: boolean;
  readonly places: readonly Place[];
  readonly widgets: DecorationSet;
}

/** Panels under the blocks of code of an editor in live preview. */
export function livePreview(host: PanelHost): Extension {
  const field: StateField<Value> = StateField.define<Value>({
    create: (state) => scan(state, []),
    update: (value, tr) => {
      const live = tr.state.field(editorLivePreviewField, false) === true;
      if (live !== value.live) return scan(tr.state, moved(value.places, tr));
      if (!tr.docChanged || !live) return value;
      const places = moved(value.places, tr);
      if (changesFences(tr)) return scan(tr.state, places);
      return { live, places, widgets: value.widgets.map(tr.changes) };
    },
    provide: (f) => EditorView.decorations.from(f, (v) => v.widgets),
  });

  function scan(state: EditorState, known: readonly Place[]): Value {
    const live = state.field(editorLivePreviewField, false) === true;
    if (!live) return { live, places: known, widgets: Decoration.none };
    const places: Place[] = [];
    for (const f of fencesOf(state.doc)) {
      if (!hasButton(f.language, host.settings())) continue;
      const from = state.doc.line(f.line + 1).from;
      const same = known.find((k) => k.from === from && k.fence.language === f.language);
      places.push({ fence: same?.fence ?? new Tracked(f.language), from, to: state.doc.line(f.endLine + 1).to });
    }
    return { live, places, widgets: Decoration.set(places.map((p) => Decoration.widget({ widget: new PanelWidget(p.fence), block: true, side: 1 }).range(p.to))) };
  }

  class PanelWidget extends WidgetType {
    constructor(readonly fence: Tracked) {
      super();
    }
    override eq(other: PanelWidget): boolean {
      return other.fence === this.fence;
    }
    override get estimatedHeight(): number {
      return 40;
    }
    override ignoreEvent(): boolean {
      return true;
    }
    override toDOM(view: EditorView): HTMLElement {
      const place = createDiv({ cls: "silk-place silk-live" });
      const { fence } = this;
      panels.set(
        place,
        new BlockPanel(place, host, {
          target: () => targetOf(view.state, fence),
          run: fence.run,
          onRun: (run) => (fence.run = run),
          onResize: () => {
            view.requestMeasure();
          },
        }),
      );
      return place;
    }
    override destroy(dom: HTMLElement): void {
      panels.get(dom)?.unload();
      panels.delete(dom);
    }
  }
  const panels = new WeakMap<HTMLElement, BlockPanel>();

  function targetOf(state: EditorState, fence: Tracked): Target | undefined {
    const place = state.field(field, false)?.places.find((p) => p.fence === fence);
    const file = state.field(editorInfoField, false)?.file;
    if (place === undefined) return undefined;
    const fences = fencesOf(state.doc);
    const line = state.doc.lineAt(place.from).number - 1;
    const f = fences.find((x) => x.line === line);
    return f === undefined ? undefined : { path: file?.path, ...shownOf(fences, f) };
  }
  return field;
}

/** The fences of a document. */
export function fencesOf(doc: Text): Fence[] {
  return findFences(doc.iterLines());
}

function moved(places: readonly Place[], tr: Transaction): Place[] {
  if (!tr.docChanged) return [...places];
  return places.map((p) => ({ fence: p.fence, from: tr.changes.mapPos(p.from, 1), to: tr.changes.mapPos(p.to, -1) }));
}

/** Whether a change may have begun, ended or renamed a fence: a line that it touches, before or after, looks like one or is quoted. */
function changesFences(tr: Transaction): boolean {
  let found = false;
  tr.changes.iterChangedRanges((fromA, toA, fromB, toB) => {
    found ||= anyLine(tr.startState.doc, fromA, toA) || anyLine(tr.state.doc, fromB, toB);
  });
  return found;
}

function anyLine(doc: Text, from: number, to: number): boolean {
  const last = doc.lineAt(to).number;
  for (let n = doc.lineAt(from).number; n <= last; n++) {
    const { text } = doc.line(n);
    if (maybeFence(text) || /^\s*>/.test(text)) return true;
  }
  return false;
}
