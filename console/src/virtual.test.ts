import { expect, it } from "vitest";
import { inSight } from "./virtual";

it("a thousand rows are a screen and some", () => {
  expect(inSight(0, 600, 40, 1000)).toEqual({ first: 0, last: 23 });
  expect(inSight(20_000, 600, 40, 1000)).toEqual({ first: 492, last: 523 });
  expect(inSight(39_400, 600, 40, 1000)).toEqual({ first: 977, last: 1000 });
  expect(inSight(0, 600, 40, 3)).toEqual({ first: 0, last: 3 });
  expect(inSight(9000, 600, 40, 3)).toEqual({ first: 3, last: 3 });
});
