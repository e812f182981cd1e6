import { expect, it } from "vitest";
import { overwritten, pieces } from "./ansi";

it("colours become classes, and markup stays text", () => {
  expect(pieces("a\u001b[1;31m<b>\u001b[0mc")).toEqual([
    { text: "a", classes: "" },
    { text: "<b>", classes: "ansi-1 ansi-bold" },
    { text: "c", classes: "" },
  ]);
  expect(pieces("\u001b[38;5;196mx\u001b[K\u001b]0;title\u0007y").map((piece) => piece.text).join("")).toBe("xy");
});

it("what is written over is not shown", () => {
  expect(overwritten("10%\r50%\r100%\ndone\r\n")).toBe("100%\ndone\n");
  expect(overwritten("ab\bc")).toBe("ac");
});
