import { expect, test } from "vitest";
import { rewrite, type NoteFile } from "./writeback.js";

/** A note in memory. edits are what somebody types, one before each attempt to write. */
function note(text: string, edits: string[] = []): NoteFile & { text: string | undefined } {
  return {
    path: "a.md",
    text,
    read() {
      return Promise.resolve(this.text);
    },
    replace(snapshot, next) {
      const edit = edits.shift();
      if (edit !== undefined) this.text = edit + (this.text ?? "");
      if (this.text !== snapshot) return Promise.resolve(false);
      this.text = next;
      return Promise.resolve(true);
    },
  };
}
const render = (s: string) => Promise.resolve(s.includes("BLOCK") ? { text: s.replace("BLOCK", "BLOCK+RESULT"), line: 0, images: [], unused: [] } : undefined);
const pause = () => Promise.resolve();

test("a note that nobody touches", async () => {
  const n = note("x BLOCK y");
  expect((await rewrite(n, render, pause)).kept).toBe("written");
  expect(n.text).toBe("x BLOCK+RESULT y");
});
test("what is typed while it is written stays, and so does the result", async () => {
  const n = note("BLOCK", ["a", "b"]);
  expect((await rewrite(n, render, pause)).kept).toBe("written");
  expect(n.text).toBe("baBLOCK+RESULT");
});
test("a block that is gone is not written anywhere", async () => {
  const n = note("nothing");
  expect((await rewrite(n, render, pause)).kept).toBe("gone");
  expect(n.text).toBe("nothing");
});
test("a note that is gone", async () => {
  const n = note("");
  n.text = undefined;
  expect((await rewrite(n, render, pause)).kept).toBe("gone");
});
test("a note that never rests keeps what was typed; the result is handed back", async () => {
  const n = note("BLOCK", Array.from({ length: 20 }, () => "z"));
  const kept = await rewrite(n, render, pause);
  expect(kept).toEqual({ kept: "conflict", text: "zzzzzBLOCK+RESULT" });
  expect(n.text).toBe("zzzzzzBLOCK");
});
