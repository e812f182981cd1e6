import { expect, it } from "vitest";
import { extensionOf, join, parentOf, rowsOf } from "./path";

it("paths are joined and shortened", () => {
  expect([join("/", "a"), join("/a", "b"), join("/a", "/c")]).toEqual(["/a", "/a/b", "/c"]);
  expect(["/", "/a", "/a/b"].map(parentOf)).toEqual(["/", "/", "/a"]);
  expect([".bashrc", "a.PY", "a.b.c", "a"].map(extensionOf)).toEqual(["", "py", "c", ""]);
});

it("values may have commas, quotes and lines in them", () => {
  expect(rowsOf('a,"b,""c""\nd"\r\n1,\n', 9)).toEqual([["a", 'b,"c"\nd'], ["1", ""]]);
  expect(rowsOf("a\nb\nc", 2)).toEqual([["a"], ["b"]]);
  expect(rowsOf("a,b", 2)).toEqual([["a", "b"]]);
});
