/** The text that a server counts in, read. */

export type Sample = { name: string; labels: Record<string, string>; value: number };

const LINE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;

export function samples(text: string): Sample[] {
  const found: Sample[] = [];
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : LINE.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...(match[2] ?? "").matchAll(LABEL)].map((label) => [label[1]!, label[2]!.replace(/\\(.)/g, (_, sign: string) => (sign === "n" ? "\n" : sign))]));
    found.push({ name: match[1]!, labels, value: Number(match[3]) });
  }
  return found;
}

/** A quantile of a histogram, between the bounds that it has. */
export function quantile(all: Sample[], name: string, part: number): number | undefined {
  const buckets = all
    .filter((sample) => sample.name === `${name}_bucket`)
    .map((sample) => ({ bound: sample.labels["le"] === "+Inf" ? Infinity : Number(sample.labels["le"]), count: sample.value }))
    .sort((a, b) => a.bound - b.bound);
  const total = buckets.at(-1)?.count ?? 0;
  if (total === 0) return undefined;
  const wanted = total * part;
  let below = { bound: 0, count: 0 };
  for (const bucket of buckets) {
    if (bucket.count >= wanted) {
      if (bucket.bound === Infinity) return below.bound;
      const width = bucket.count - below.count;
      return width === 0 ? bucket.bound : below.bound + ((bucket.bound - below.bound) * (wanted - below.count)) / width;
    }
    below = bucket;
  }
  return below.bound;
}
