import { describe, expect, it } from "vitest";
import { bytes, count, duration, isTrouble, micros, moment, percent, reason, relative } from "./format";

describe("format", () => {
  it("sizes have three digits at most", () => {
    expect([0, 1, 1023, 1024, 1536, 10 * 1024 * 1024, 123_456_789, 2 ** 41].map(bytes)).toEqual([
      "0 B", "1 B", "1023 B", "1 KiB", "1.5 KiB", "10 MiB", "118 MiB", "2 TiB",
    ]);
  });
  it("lengths of time have two units", () => {
    expect([-1, 5, 65, 3600, 90_061].map(duration)).toEqual(["0 s", "5 s", "1 m 05 s", "1 h 00 m", "1 d 1 h"]);
    expect([7, 1500, 43_000, 1_708_092, 61_000_000].map(micros)).toEqual(["7 µs", "1.5 ms", "43 ms", "1.71 s", "1 m 01 s"]);
  });
  it("moments are in UTC when asked", () => {
    expect(moment("2026-11-18T20:00:01.234Z", true)).toBe("2026-11-18 20:00:01");
    expect(moment("2026-11-18T20:00:01.234Z", true, "time")).toBe("20:00:01.234");
    expect(moment("nonsense", true)).toBe("");
  });
  it("what was and what will be differ", () => {
    const now = Date.parse("2026-11-18T20:00:00Z");
    expect(relative("2026-11-18T19:59:00Z", now)).toBe("1 m 00 s ago");
    expect(relative("2026-11-18T20:05:00Z", now)).toBe("in 5 m 00 s");
    expect(relative("2026-11-18T20:00:02Z", now)).toBe("now");
  });
  it("reasons are words, and those nobody wanted are trouble", () => {
    expect(reason("out_of_memory")).toBe("out of memory");
    expect(reason("some_new_one")).toBe("some new one");
    expect(["killed", "timeout", "crashed", undefined].map(isTrouble)).toEqual([false, false, true, false]);
  });
  it("one is one", () => {
    expect([count(1, "cell"), count(2, "cell"), percent(3.14), percent(31.4)]).toEqual(["1 cell", "2 cells", "3.1 %", "31 %"]);
  });
});
