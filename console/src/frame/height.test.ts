import { expect, it } from "vitest";
import { heightOf, MOST_MESSAGES, Patience } from "./height";

it("only numbers are heights, and none is beyond its bounds", () => {
  for (const odd of [undefined, null, 5, "5", {}, { height: "5" }, { height: Number.NaN }, { height: Infinity }, { height: -1 }, { height: {} }]) {
    expect(heightOf(odd, false)).toBeUndefined();
  }
  expect(heightOf({ height: 1 }, false)).toEqual({ height: 20, isCut: false });
  expect(heightOf({ height: 300.2 }, false)).toEqual({ height: 301, isCut: false });
  expect(heightOf({ height: 1e6 }, false)).toEqual({ height: 600, isCut: true });
  expect(heightOf({ height: 1e6 }, true)).toEqual({ height: 20_000, isCut: true });
});

it("a frame is listened to so often in a second", () => {
  const patience = new Patience();
  for (let at = 0; at < MOST_MESSAGES; at += 1) expect(patience.takes(1000 + at)).toBe(true);
  expect(patience.takes(1999)).toBe(false);
  expect(patience.takes(2000)).toBe(true);
});
