// A queue with priorities and its tests: silk run -p lab:node --dir examples/labs/node -- node --test queue.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";

class Queue {
  #heap = [];

  push(priority, value) {
    const heap = this.#heap;
    let at = heap.push({ priority, value }) - 1;
    for (let above; at > 0 && heap[(above = (at - 1) >> 1)].priority > heap[at].priority; at = above) [heap[above], heap[at]] = [heap[at], heap[above]];
  }

  pop() {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (heap.length === 0) return first?.value;
    heap[0] = last;
    for (let at = 0; ; ) {
      const below = [2 * at + 1, 2 * at + 2].filter((i) => i < heap.length).sort((a, b) => heap[a].priority - heap[b].priority)[0];
      if (below === undefined || heap[below].priority >= heap[at].priority) return first.value;
      [heap[below], heap[at]] = [heap[at], heap[below]];
      at = below;
    }
  }
}

test("the least comes first", () => {
  const queue = new Queue();
  for (const n of [5, 3, 8, 1, 9, 2]) queue.push(n, `n${n}`);
  assert.deepEqual(Array.from({ length: 6 }, () => queue.pop()), ["n1", "n2", "n3", "n5", "n8", "n9"]);
});

test("an empty one has nothing", () => assert.equal(new Queue().pop(), undefined));
