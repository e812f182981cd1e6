/** Filters that people type. */
import type { SandboxRecord } from "./types";

/** True if every word of a text occurs in another, whatever their case. */
export function matches(text: string, candidate: string): boolean {
  const lower = candidate.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}

/** True if a sandbox is what a filter means: words of its id, template, state and reason, and `key=value` of its metadata. */
export function isMeant(filter: string, record: SandboxRecord): boolean {
  const words = filter.trim().split(/\s+/).filter((word) => word !== "");
  return words.every((word) => {
    const at = word.indexOf("=");
    if (at > 0) {
      const value = record.metadata[word.slice(0, at)];
      return value !== undefined && value.toLowerCase().includes(word.slice(at + 1).toLowerCase());
    }
    const fields = [record.sandboxID, record.alias, record.templateID, record.state, record.endReason ?? "", ...Object.keys(record.metadata), ...Object.values(record.metadata)];
    return matches(word, fields.join(" "));
  });
}
