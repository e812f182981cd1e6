/** Where values lie on an axis. */

export type Value = number | string | null;

/** Round steps between two numbers, about `wanted` of them. */
export function ticks(low: number, high: number, wanted = 5): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) ?? rough;
  const found: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

export type Axis = { place: (value: Value) => number | undefined; marks: { at: number; label: string }[] };

/** An axis of 0 to 1 for values, which are numbers, moments or words. */
export function axis(values: Value[], scale: string | undefined, fromZero = false): Axis {
  const known = values.filter((value): value is number | string => value !== null);
  const isTime = scale === "datetime" && known.every((value) => typeof value === "string" && !Number.isNaN(Date.parse(value)));
  if (!isTime && known.some((value) => typeof value === "string")) {
    const words = [...new Set(known.map(String))];
    const place = (value: Value) => (value === null ? undefined : (words.indexOf(String(value)) + 0.5) / words.length);
    const every = Math.ceil(words.length / 12);
    const marks = words.map((label, index) => ({ label, at: (index + 0.5) / words.length })).filter((_, index) => index % every === 0);
    return { place, marks };
  }
  const isLog = scale === "log" && known.every((value) => typeof value === "number" && value > 0);
  const number = (value: number | string) => (isTime ? Date.parse(value as string) : isLog ? Math.log10(value as number) : (value as number));
  const numbers = known.map(number).filter(Number.isFinite);
  let low = numbers.length > 0 ? numbers.reduce((a, b) => Math.min(a, b)) : 0;
  let high = numbers.length > 0 ? numbers.reduce((a, b) => Math.max(a, b)) : 1;
  if (fromZero) {
    low = Math.min(0, low);
    high = Math.max(0, high);
  }
  if (low === high) {
    low -= 0.5;
    high += 0.5;
  }
  const place = (value: Value) => {
    if (value === null) return undefined;
    const at = (number(value) - low) / (high - low);
    return Number.isFinite(at) ? at : undefined;
  };
  const label = (tick: number) => {
    if (isTime) return new Date(tick).toISOString().slice(0, high - low > 3 * 86_400_000 ? 10 : 16).replace("T", " ");
    if (isLog) return `10^${tick}`;
    return Math.abs(tick) >= 1e6 || (tick !== 0 && Math.abs(tick) < 1e-4) ? tick.toExponential(1) : String(tick);
  };
  return { place, marks: ticks(low, high, isTime ? 4 : 5).map((tick) => ({ at: (tick - low) / (high - low), label: label(tick) })) };
}
