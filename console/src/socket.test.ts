import { expect, it } from "vitest";
import { inputMessage, sizeMessage, understood } from "./socket";

const of = (...bytes: number[]) => understood(new Uint8Array(bytes).buffer);

it("messages of a terminal have a kind and a form", () => {
  expect([...inputMessage(new Uint8Array([108, 115]))]).toEqual([0, 108, 115]);
  expect([...sizeMessage(258, 24)]).toEqual([1, 1, 2, 0, 24]);
  expect(of(1, 0, 0, 1, 2)).toEqual({ kind: "process", pid: 258 });
  expect(of(2, 255, 255, 255, 255)).toEqual({ kind: "exit", code: -1 });
  expect(of(3, 111, 107)).toEqual({ kind: "over", why: "ok" });
  expect(of(1, 0)).toBeUndefined();
  expect(of(9)).toBeUndefined();
});
