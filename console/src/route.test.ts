import { expect, it } from "vitest";
import { href, parse, ticketOf } from "./route";

it("a fragment names a place, and whatever is in it comes back", () => {
  expect(parse("")).toEqual({ page: "sandboxes" });
  expect(parse("#/")).toEqual({ page: "sandboxes" });
  expect(parse("#/sandboxes/i1/terminal")).toEqual({ page: "sandboxes", id: "i1", tab: "terminal" });
  const odd = "a/b#c?d%";
  expect(parse(href("templates", odd))).toEqual({ page: "templates", id: odd });
  expect(parse("#/x/%zz")).toEqual({ page: "x", id: "%zz" });
});

it("a ticket is nothing else", () => {
  const ticket = "A".repeat(43);
  expect(ticketOf(`#ticket=${ticket}`)).toBe(ticket);
  for (const other of ["", "#/sandboxes", "#ticket=", `#ticket=${ticket}x`, `#ticket=${ticket.slice(1)}<`]) {
    expect(ticketOf(other)).toBeUndefined();
  }
});
