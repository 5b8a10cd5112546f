/** What the server answers to "put the result of this run under its block". */
export interface Written {
  readonly text: string;
  readonly line: number;
  readonly images: readonly { readonly artifact: string; readonly path: string }[];
}

/** A finished run whose result belongs into a note. */
export interface Result {
  readonly path: string;
  /** Where the block was, a hint; the hash decides. */
  readonly line: number;
  readonly codeHash: string;
  readonly run: string;
}

/** The note, by the host. */
export interface NoteFile {
  /** The text now; undefined if the note is gone. */
  read(): Promise<string | undefined>;
  /** Replaces the note by text if it still is snapshot, atomically, and returns whether it was. */
  replace(snapshot: string, text: string): Promise<boolean>;
  /** Where the note is now; it may have been renamed. */
  readonly path: string;
}

/** What became of a result. */
export type Kept =
  | { readonly kept: "written"; readonly written: Written }
  /** There is no such block in the note any more: its result is in the record alone. */
  | { readonly kept: "gone" }
  /** The note changed each time: the text that it would have been, for a file beside it. */
  | { readonly kept: "conflict"; readonly text: string };

const attempts = 6;

/**
 * Puts the result of a run into its note. render is the server's: it finds the block by its code and returns the whole new text, or
 * undefined if the block is not in it. The note is replaced only while it still is the text that was rendered; what the user types
 * meanwhile is never lost, and is only ever kept.
 */
export async function keepResult(file: NoteFile, render: (snapshot: string) => Promise<Written | undefined>, pause: (attempt: number) => Promise<void>): Promise<Kept> {
  let last = "";
  for (let i = 1; i <= attempts; i++) {
    const snapshot = await file.read();
    if (snapshot === undefined) return { kept: "gone" };
    const written = await render(snapshot);
    if (written === undefined) return { kept: "gone" };
    if (written.text === snapshot || (await file.replace(snapshot, written.text))) return { kept: "written", written };
    last = written.text;
    await pause(i);
  }
  return { kept: "conflict", text: last };
}

/** The text without the lines from first to last and their ends, which are LF, CR LF or CR. Every other byte stays. */
export function withoutLines(text: string, first: number, last: number): string {
  const lines = text.match(/[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$/g) ?? [];
  return lines.filter((_, i) => i < first || i > last).join("");
}
