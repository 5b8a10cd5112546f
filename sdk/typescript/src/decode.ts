import { SilkDecodeError } from "./errors.js";

/** Turns a value of unknown shape into a T, or throws a {@link SilkDecodeError}. at is where the value is, for the error. */
export type Decoder<T> = (value: unknown, at: string) => T;

/** A field that may be absent. */
export interface Optional<T> {
  readonly optional: Decoder<T>;
}

/** The decoders of the fields of T: those that T may lack are optional. That T and its decoder agree is checked by the compiler. */
export type Shape<T> = {
  readonly [K in keyof T]-?: object extends Pick<T, K> ? Optional<Exclude<T[K], undefined>> : Decoder<T[K]>;
};

/** Decodes an object. Fields that the shape does not name are dropped: a newer server may send them. */
export function object<T extends object>(shape: Shape<T>): Decoder<T> {
  const fields = Object.entries<Optional<unknown> | Decoder<unknown>>(shape);
  return (value, at) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new SilkDecodeError(at, "an object");
    const from = new Map<string, unknown>(Object.entries(value));
    const out: [string, unknown][] = [];
    for (const [name, field] of fields) {
      const where = at === "" ? name : `${at}.${name}`;
      const v = from.get(name);
      if (typeof field === "function") out.push([name, field(v, where)]);
      else if (v !== undefined) out.push([name, field.optional(v, where)]);
    }
    return Object.fromEntries(out) as T; // Shape has a decoder for each field of T
  };
}

export function optional<T>(decode: Decoder<T>): Optional<T> {
  return { optional: decode };
}

export const string: Decoder<string> = (value, at) => {
  if (typeof value !== "string") throw new SilkDecodeError(at, "a string");
  return value;
};

export const boolean: Decoder<boolean> = (value, at) => {
  if (typeof value !== "boolean") throw new SilkDecodeError(at, "true or false");
  return value;
};

export const number: Decoder<number> = (value, at) => {
  if (typeof value !== "number") throw new SilkDecodeError(at, "a number");
  return value;
};

/** An integer that a JavaScript number holds exactly. */
export const integer: Decoder<number> = (value, at) => {
  if (typeof value !== "number" || !Number.isSafeInteger(value)) throw new SilkDecodeError(at, "an integer below 2^53");
  return value;
};

/** A count or an offset of bytes. */
export const count: Decoder<number> = (value, at) => {
  const n = integer(value, at);
  if (n < 0) throw new SilkDecodeError(at, "a number of at least 0");
  return n;
};

export const unknown: Decoder<unknown> = (value, at) => {
  if (value === undefined) throw new SilkDecodeError(at, "there");
  return value;
};

export function oneOf<const T extends string>(...values: readonly T[]): Decoder<T> {
  return (value, at) => {
    const found = values.find((v) => v === value);
    if (found === undefined) throw new SilkDecodeError(at, `one of ${values.join(", ")}`);
    return found;
  };
}

export function nullable<T>(decode: Decoder<T>): Decoder<T | null> {
  return (value, at) => (value === null ? null : decode(value, at));
}

/** Decodes an array; null is an empty one, as Go writes it. */
export function array<T>(decode: Decoder<T>): Decoder<T[]> {
  return (value, at) => {
    if (value === null) return [];
    if (!Array.isArray(value)) throw new SilkDecodeError(at, "an array");
    return value.map((v, i) => decode(v, `${at}[${i}]`));
  };
}

export function record<T>(decode: Decoder<T>): Decoder<Record<string, T>> {
  return (value, at) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new SilkDecodeError(at, "an object");
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, decode(v, `${at}.${k}`)]));
  };
}

/** Parses JSON text. That it is none is an error at "". */
export function parseJSON(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new SilkDecodeError("", "JSON");
  }
}
