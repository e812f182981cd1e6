import { expect, it } from "vitest";
import { isMeant, matches } from "./match";
import type { SandboxRecord } from "./types";

it("all words must occur", () => {
  expect(matches("kill i8", "Kill sandbox i8f6")).toBe(true);
  expect(matches("kill q", "Kill sandbox i8f6")).toBe(false);
  expect(matches("", "anything")).toBe(true);
});

it("a filter looks at what a sandbox is and what its owner said of it", () => {
  const record = { sandboxID: "i8f6", alias: "base", templateID: "t1", state: "ended", endReason: "out_of_memory", metadata: { agent: "Planner" } } as unknown as SandboxRecord;
  for (const filter of ["", "i8", "base ended", "memory", "agent=plan", "agent=", "planner"]) expect(isMeant(filter, record), filter).toBe(true);
  for (const filter of ["i9", "agent=x", "user=", "=x", "running"]) expect(isMeant(filter, record), filter).toBe(false);
});
