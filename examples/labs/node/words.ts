// The words of a text that come most often: silk run examples/labs/node/words.ts
interface Count {
  word: string;
  times: number;
}

function count(text: string): Count[] {
  const times = new Map<string, number>();
  for (const [word] of text.toLowerCase().matchAll(/\p{L}+/gu)) times.set(word, (times.get(word) ?? 0) + 1);
  return [...times].map(([word, n]) => ({ word, times: n })).sort((a, b) => b.times - a.times || a.word.localeCompare(b.word));
}

const text = "How much wood would a woodchuck chuck, if a woodchuck could chuck wood? As much wood as a woodchuck could.";
for (const { word, times } of count(text).slice(0, 4)) console.log(`${word.padEnd(10)} ${"#".repeat(times)}`);
