// Shows a table and JSON as results, and changes one of them in its place.
// silk run --artifacts out examples/results.mjs
import { show } from "silk";

const state = show("working");
const squares = Array.from({ length: 5 }, (_, n) => ({ n, square: n * n }));
show(squares);
state.update({ sum: squares.reduce((sum, row) => sum + row.square, 0) });
