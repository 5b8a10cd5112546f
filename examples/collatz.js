// Which number takes the longest way down to one?   silk run examples/collatz.js
const limit = 1_000_000;
const steps = new Uint16Array(limit);
let best = 1;
for (let start = 2, say = 10; start < limit; start++) {
  let n = start;
  let count = 0;
  while (n >= start) {
    n = n % 2 === 0 ? n / 2 : 3 * n + 1;
    count++;
  }
  steps[start] = count + steps[n];
  if (steps[start] > steps[best]) best = start;
  if (start + 1 === say) {
    console.log(`below ${say}: ${best}, in ${steps[best]} steps`);
    say *= 10;
  }
}
