/** How numbers, times and words are shown. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${trimmed(value.toFixed(digits))} ${UNITS[unit]}`;
}

export function mebibytes(count: number): string {
  return bytes(count * 1024 * 1024);
}

function trimmed(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A length of time, in its two largest units. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} m ${pad(whole % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${pad(minutes % 60)} m`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** A short time, as measured. */
export function micros(count: number): string {
  if (count < 1000) return `${count} µs`;
  if (count < 1_000_000) return `${trimmed((count / 1000).toFixed(count < 10_000 ? 1 : 0))} ms`;
  if (count < 60_000_000) return `${trimmed((count / 1_000_000).toFixed(count < 10_000_000 ? 2 : 1))} s`;
  return duration(count / 1_000_000);
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

/** A moment, in the reader's time or in UTC. */
export function moment(at: string | number, utc: boolean, parts: "time" | "full" = "full"): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  const text = utc ? date.toISOString() : new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString();
  const [day, rest] = text.split("T");
  const time = rest?.slice(0, parts === "time" ? 12 : 8) ?? "";
  return parts === "time" ? time : `${day} ${time}`;
}

/** How long ago, or in how long. */
export function relative(at: string, now: number): string {
  const seconds = (new Date(at).getTime() - now) / 1000;
  const words = duration(Math.abs(seconds));
  if (Math.abs(seconds) < 5) return "now";
  return seconds < 0 ? `${words} ago` : `in ${words}`;
}

export function percent(value: number): string {
  return `${trimmed(value.toFixed(value < 10 ? 1 : 0))} %`;
}

const REASONS: Record<string, string> = {
  killed: "killed",
  timeout: "time was over",
  out_of_memory: "out of memory",
  disk_full: "host disk full",
  crashed: "crashed",
  start_failed: "did not start",
  server_stopped: "server stopped",
  host_restart: "host restarted",
};

/** Why a sandbox ended, in words. */
export function reason(word: string | undefined): string {
  if (word === undefined) return "";
  return REASONS[word] ?? word.replaceAll("_", " ");
}

/** True for an end that nobody asked for. */
export function isTrouble(word: string | undefined): boolean {
  return word !== undefined && !["killed", "timeout", "server_stopped"].includes(word);
}

export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
