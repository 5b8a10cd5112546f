/** What came of one of the sources of a {@link Merge}. */
export type Merged<T> =
  | { readonly source: AsyncIterator<T>; readonly value: T }
  | { readonly source: AsyncIterator<T>; readonly done: true }
  | { readonly source: AsyncIterator<T>; readonly error: unknown };

/** Reads several iterators as one, each a value ahead at most, and none before the others again. */
export class Merge<T> {
  readonly #sources = new Set<AsyncIterator<T>>();
  readonly #ready: Merged<T>[] = [];
  #wake: (() => void) | undefined;

  add(source: AsyncIterator<T>): void {
    this.#sources.add(source);
    this.#pull(source);
  }

  /** The next value, end or error of any source. */
  async next(): Promise<Merged<T>> {
    for (;;) {
      const first = this.#ready.shift();
      if (first !== undefined) {
        if ("value" in first) this.#pull(first.source);
        else this.#sources.delete(first.source);
        return first;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Ends all sources. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#sources].map(async (s) => s.return?.()));
  }

  #pull(source: AsyncIterator<T>): void {
    const put = (m: Merged<T>): void => {
      this.#ready.push(m);
      this.#wake?.();
    };
    source.next().then(
      (r) => {
        put(r.done === true ? { source, done: true } : { source, value: r.value });
      },
      (error: unknown) => {
        put({ source, error });
      },
    );
  }
}
