import { expect, it } from "vitest";
import { ended, folded, fromCharacters, Lines, read, toCharacters, type Cell } from "./cell";

const cell: Cell = { id: 1, code: "", state: "queued", outputs: [] };
const stream = (name: string, text: string) => ({ type: "output", output: { output_type: "stream", name, text } });
const fold = (...lines: ({ type: string } & Record<string, unknown>)[]) => lines.reduce(folded, cell);

it("lines of an answer become what a cell shows", () => {
  const done = fold(
    { type: "number_of_executions", execution_count: 3 },
    stream("stdout", "a"),
    stream("stdout", "b"),
    stream("stderr", "c"),
    { type: "keepalive" },
    { type: "output", output: { output_type: "execute_result", data: { "text/plain": "42", "e2b/chart": { type: "pie" } } } },
    { type: "output", kind: "runtime", output: { output_type: "error", ename: "ValueError", evalue: "no", traceback: ["a", "b"] } },
    { type: "receipt", outcome: "runtime", wall_us: 5, queued_us: 1 },
    { type: "end_of_execution" },
  );
  expect(done.count).toBe(3);
  expect(done.state).toBe("done");
  expect(done.outputs.map((output) => output.kind)).toEqual(["stream", "stream", "result", "error"]);
  expect(done.outputs[0]).toEqual({ kind: "stream", name: "stdout", text: "ab" });
  expect(done.outputs[2]).toEqual({ kind: "result", result: { is_main_result: true, text: "42", chart: { type: "pie" } } });
  expect(done.outputs[3]).toEqual({ kind: "error", name: "ValueError", value: "no", traceback: "a\nb", what: "runtime" });
  expect(done.receipt?.wall_us).toBe(5);
});

it("what is displayed may be displayed anew, or cleared", () => {
  const shown = (output_type: string, text: string) => ({ type: "output", output: { output_type, data: { "text/plain": text }, transient: { display_id: "d" } } });
  const updated = fold(shown("display_data", "10 %"), stream("stdout", "x"), shown("update_display_data", "90 %"));
  expect(updated.outputs.map((output) => (output.kind === "result" ? output.result.text : "stream"))).toEqual(["90 %", "stream"]);
  expect(folded(updated, { type: "output", output: { output_type: "clear_output" } }).outputs).toEqual([]);
});

it("a question for input is over when the execution is", () => {
  const asking = fold({ type: "input_request", prompt: "Name? ", password: true });
  expect(asking.asks).toEqual({ prompt: "Name? ", password: true });
  expect(ended(asking).asks).toBeUndefined();
});

it("a flood keeps its ends", () => {
  const long = fold(stream("stdout", `begin${"x".repeat(300_000)}`), stream("stdout", "end"));
  const text = (long.outputs[0] as { text: string }).text;
  expect(text.length).toBeLessThan(201_000);
  expect(text.startsWith("begin") && text.endsWith("end")).toBe(true);
  let many = cell;
  for (let at = 0; at < 600; at += 1) many = folded(many, { type: "output", output: { output_type: "display_data", data: { "text/plain": "x" } } });
  expect(many.outputs.length).toBe(500);
});

it("lines may come in pieces, also within a character", () => {
  const lines = new Lines();
  const bytes = new TextEncoder().encode('{"type":"stdout","text":"ä"}\n\n{"type":"keepalive"}\n');
  expect(lines.take(bytes.subarray(0, 25))).toEqual([]);
  expect(lines.take(bytes.subarray(25))).toEqual([{ type: "stdout", text: "ä" }, { type: "keepalive" }]);
});

it("kernels count characters, and browsers halves of some", () => {
  expect(toCharacters("a😀b", 3)).toBe(2);
  expect(fromCharacters("a😀b", 2)).toBe(3);
});

it("a notebook is read with its outputs", () => {
  const { cells, language } = read(
    JSON.stringify({
      metadata: { language_info: { name: "python" } },
      cells: [
        { cell_type: "markdown", source: "# no" },
        { cell_type: "code", source: ["1+", "1"], execution_count: 2, outputs: [{ output_type: "execute_result", data: { "text/plain": ["2"] } }, { output_type: "stream", name: "stderr", text: "w" }, { output_type: "error", ename: "E", evalue: "v", traceback: ["a", "b"] }] },
        { cell_type: "code", source: "", outputs: [] },
      ],
    }),
  );
  expect(language).toBe("python");
  expect(cells.map((one) => [one.code, one.state, one.count])).toEqual([["1+1", "done", 2], ["", "new", undefined]]);
  expect(cells[0]!.outputs[0]).toEqual({ kind: "result", result: { is_main_result: true, text: "2" } });
  expect(() => read("{}")).toThrow(/not a notebook/);
});
