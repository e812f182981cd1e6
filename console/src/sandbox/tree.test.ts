import { expect, it } from "vitest";
import { tree } from "./tree";

it("what was made after another hangs below it, and orphans begin anew", () => {
  const items = [{ id: "1" }, { id: "2", parent: "1" }, { id: "3", parent: "gone" }, { id: "4", parent: "1" }, { id: "5", parent: "2" }];
  const nodes = tree(items, (item) => item.id, (item) => item.parent);
  expect(nodes.map((node) => `${" ".repeat(node.depth)}${node.item.id}`)).toEqual(["1", " 2", "  5", " 4", "3"]);
});
