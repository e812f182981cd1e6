import { expect, it } from "vitest";
import { axis, ticks } from "./scale";

it("steps are round", () => {
  expect(ticks(0, 10)).toEqual([0, 2, 4, 6, 8, 10]);
  expect(ticks(0.13, 0.52, 4)).toEqual([0.2, 0.3, 0.4, 0.5]);
  expect(ticks(3, 3)).toEqual([3]);
});

it("numbers, moments, powers and words have places", () => {
  const line = axis([0, 5, 10], "linear");
  expect([0, 5, 10].map(line.place)).toEqual([0, 0.5, 1]);
  expect(line.place(null)).toBeUndefined();
  expect(axis([1, 100], "log").place(10)).toBe(0.5);
  expect(axis(["2026-01-01", "2026-01-03"], "datetime").place("2026-01-02")).toBe(0.5);
  expect(axis(["a", "b"], "categorical").place("b")).toBe(0.75);
  expect(axis([5, 10], "linear", true).place(0)).toBe(0);
  expect(axis([7], "linear").place(7)).toBe(0.5);
  expect(axis([], "linear").marks.length).toBeGreaterThan(0);
});
