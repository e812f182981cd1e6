/** Cells, and the pure fold from the lines of an execution's answer to what a cell shows. */

export type Result = {
  text?: string;
  html?: string;
  markdown?: string;
  svg?: string;
  png?: string;
  jpeg?: string;
  latex?: string;
  json?: unknown;
  javascript?: string;
  data?: unknown;
  chart?: unknown;
  is_main_result?: boolean;
};

export type Output =
  | { kind: "stream"; name: "stdout" | "stderr"; text: string }
  | { kind: "result"; result: Result; display?: string }
  | { kind: "error"; name: string; value: string; traceback: string; what?: string }
  | { kind: "note"; text: string };

export type Receipt = { outcome: string; wall_us: number; queued_us: number; cpu_us?: number; peak_memory_bytes?: number; out_of_memory_kills?: number };

export type Asks = { prompt: string; password: boolean };

export type Cell = {
  id: number;
  code: string;
  count?: number;
  state: "new" | "queued" | "running" | "done";
  outputs: Output[];
  receipt?: Receipt;
  asks?: Asks;
  execution?: string;
};

/** Most text of a stream that a cell keeps; the middle goes. */
const LONGEST_TEXT = 200_000;
const MOST_OUTPUTS = 500;

type Line = { type: string } & Record<string, unknown>;

/** A cell after one more line. */
export function folded(cell: Cell, line: Line): Cell {
  const text = (name: string) => (typeof line[name] === "string" ? (line[name] as string) : "");
  switch (line.type) {
    case "number_of_executions":
      return { ...cell, state: "running", count: Number(line["execution_count"]) };
    case "error": {
      const error: Output = { kind: "error", name: text("name"), value: text("value"), traceback: text("traceback") };
      return withOutput(cell, ofKind(error, text("kind")));
    }
    case "output":
      return withJupyter(cell, line["output"] as JupyterOutput, text("kind"));
    case "input_request":
      return { ...cell, state: "running", asks: { prompt: text("prompt"), password: line["password"] === true } };
    case "context_restarted":
      return withOutput(cell, { kind: "note", text: `The kernel is a new one (${text("reason")}); the variables of before are gone.` });
    case "output_lost":
      return withOutput(cell, { kind: "note", text: `${Number(line["bytes"])} bytes of output are lost.` });
    case "receipt":
      return { ...cell, receipt: line as unknown as Receipt };
    case "end_of_execution":
      return ended(cell);
    default:
      return cell;
  }
}

function ofKind(output: Output, what: string): Output {
  return output.kind === "error" && what !== "" ? { ...output, what } : output;
}

function withJupyter(cell: Cell, output: JupyterOutput, what: string): Cell {
  if (output.output_type === "clear_output") return { ...cell, state: "running", outputs: [] };
  const [made] = outputOf(output);
  if (!made) return cell;
  if (made.kind === "stream") return { ...cell, state: "running", outputs: written(cell.outputs, made.name, made.text) };
  const display = output.transient?.display_id;
  if (output.output_type === "update_display_data") {
    return { ...cell, outputs: cell.outputs.map((one) => (one.kind === "result" && display !== undefined && one.display === display ? { ...made, display } as Output : one)) };
  }
  return withOutput(cell, ofKind(made.kind === "result" && display !== undefined ? { ...made, display } : made, what));
}

/** A cell whose execution is over. */
export function ended(cell: Cell): Cell {
  const { asks: _asks, ...rest } = cell;
  return { ...rest, state: "done" };
}

export function withOutput(cell: Cell, output: Output): Cell {
  if (cell.outputs.length >= MOST_OUTPUTS) return cell;
  return { ...cell, state: cell.state === "done" ? "done" : "running", outputs: [...cell.outputs, output] };
}

function written(outputs: Output[], name: "stdout" | "stderr", text: string): Output[] {
  const last = outputs.at(-1);
  if (last?.kind === "stream" && last.name === name) {
    return [...outputs.slice(0, -1), { kind: "stream", name, text: shortened(last.text + text) }];
  }
  if (outputs.length >= MOST_OUTPUTS) return outputs;
  return [...outputs, { kind: "stream", name, text: shortened(text) }];
}

const CUT = "\n… the middle of this output is not shown …\n";

function shortened(text: string): string {
  if (text.length <= LONGEST_TEXT) return text;
  const half = Math.floor(LONGEST_TEXT / 2);
  return text.slice(0, half) + CUT + text.slice(-half + CUT.length);
}

/** Lines of JSON, as they arrive in pieces. */
export class Lines {
  private begun = "";
  private decoder = new TextDecoder();

  take(bytes: Uint8Array): Line[] {
    const parts = (this.begun + this.decoder.decode(bytes, { stream: true })).split("\n");
    this.begun = parts.pop() ?? "";
    return parts.filter((part) => part.trim() !== "").map((part) => JSON.parse(part) as Line);
  }
}

/** A position in UTF-16 as a number of characters, as kernels count. */
export function toCharacters(text: string, position: number): number {
  return [...text.slice(0, position)].length;
}

export function fromCharacters(text: string, count: number): number {
  return [...text].slice(0, count).join("").length;
}

type NotebookFile = { cells?: { cell_type?: string; source?: string | string[]; execution_count?: number | null; outputs?: JupyterOutput[] }[]; metadata?: { kernelspec?: { language?: string }; language_info?: { name?: string } } };
type JupyterOutput = { transient?: { display_id?: string }; output_type: string; name?: string; text?: string | string[]; data?: Record<string, unknown>; ename?: string; evalue?: string; traceback?: string[] };

const joined = (text: unknown) => (Array.isArray(text) ? text.join("") : String(text ?? ""));

/** The code cells of a notebook file, with their outputs. */
export function read(text: string): { cells: Omit<Cell, "id">[]; language: string | undefined } {
  const file = JSON.parse(text) as NotebookFile;
  if (!Array.isArray(file.cells)) throw new Error("this is not a notebook of the form 4");
  const cells = file.cells
    .filter((cell) => cell.cell_type === "code")
    .map((cell): Omit<Cell, "id"> => {
      const outputs = (cell.outputs ?? []).flatMap(outputOf);
      const base = { code: joined(cell.source), outputs, state: outputs.length > 0 ? ("done" as const) : ("new" as const) };
      return typeof cell.execution_count === "number" ? { ...base, count: cell.execution_count } : base;
    });
  return { cells, language: file.metadata?.language_info?.name ?? file.metadata?.kernelspec?.language };
}

const FIELDS: Record<string, keyof Result> = {
  "text/plain": "text",
  "text/html": "html",
  "text/markdown": "markdown",
  "image/svg+xml": "svg",
  "image/png": "png",
  "image/jpeg": "jpeg",
  "text/latex": "latex",
  "application/javascript": "javascript",
};

function outputOf(output: JupyterOutput): Output[] {
  if (!["stream", "error", "display_data", "execute_result", "update_display_data"].includes(output.output_type)) return [];
  if (output.output_type === "stream") return [{ kind: "stream", name: output.name === "stderr" ? "stderr" : "stdout", text: joined(output.text) }];
  if (output.output_type === "error") return [{ kind: "error", name: output.ename ?? "", value: output.evalue ?? "", traceback: (output.traceback ?? []).join("\n") }];
  const result: Record<string, unknown> = { is_main_result: output.output_type === "execute_result" };
  for (const [kind, value] of Object.entries(output.data ?? {})) {
    const field = FIELDS[kind];
    if (field) result[field] = joined(value);
    else if (kind === "application/json") result["json"] = value;
    else if (kind === "e2b/data") result["data"] = value;
    else if (kind === "e2b/chart") result["chart"] = value;
  }
  return [{ kind: "result", result: result as Result }];
}
