import type { NoteText } from "@silk-sandbox/client";

/** The note, by the host. */
export interface NoteFile {
  /** The text now; undefined if the note is gone. */
  read(): Promise<string | undefined>;
  /** Replaces the note by text if it still is snapshot, atomically, and returns whether it was. */
  replace(snapshot: string, text: string): Promise<boolean>;
  /** Where the note is now; it may have been renamed. */
  readonly path: string;
}

/** What became of a change of a note. */
export type Kept =
  | { readonly kept: "written"; readonly written: NoteText }
  /** There is no such block in the note any more, or no note. */
  | { readonly kept: "gone" }
  /** The note changed each time: the text that it would have been, for a file beside it. */
  | { readonly kept: "conflict"; readonly text: string };

const attempts = 6;

/**
 * Puts the result of a run into its note, or takes it out. render is the server's: it finds the block by its code and returns the whole
 * new text, or undefined if the block is not in it. The note is replaced only while it still is the text that was rendered; what the
 * user types meanwhile is never lost, and is only ever kept.
 */
export async function rewrite(file: NoteFile, render: (snapshot: string) => Promise<NoteText | undefined>, pause: (attempt: number) => Promise<void>): Promise<Kept> {
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
