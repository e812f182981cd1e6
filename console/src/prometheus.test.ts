import { expect, it } from "vitest";
import { quantile, samples } from "./prometheus";

const TEXT = `# HELP a b
a_total{kind="x\\"y",other="z"} 3
b 1.5e3
t_seconds_bucket{le="0.1"} 5
t_seconds_bucket{le="1"} 10
t_seconds_bucket{le="+Inf"} 10
`;

it("names, labels and values are read", () => {
  const all = samples(TEXT);
  expect(all[0]).toEqual({ name: "a_total", labels: { kind: 'x"y', other: "z" }, value: 3 });
  expect(all[1]).toEqual({ name: "b", labels: {}, value: 1500 });
  expect(all.length).toBe(5);
});

it("quantiles lie between bounds", () => {
  const all = samples(TEXT);
  expect(quantile(all, "t_seconds", 0.5)).toBeCloseTo(0.1);
  expect(quantile(all, "t_seconds", 0.75)).toBeCloseTo(0.55);
  expect(quantile(all, "none", 0.5)).toBeUndefined();
});
