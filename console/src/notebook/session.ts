/** Contexts and cells of one sandbox, for as long as this tab is open: also after the sandbox's end. */
import { signal, type Signal } from "@preact/signals";
import { ApiError, messageOf, sandbox, type Sandbox } from "../api";
import { ended, folded, Lines, read, withOutput, type Cell } from "./cell";

export type Context = { id: string; language: string; cwd: string };

const KEY = (id: string) => `skep.drafts.${id}`;

export class Session {
  readonly contexts: Signal<Context[] | undefined> = signal(undefined);
  readonly shown: Signal<string | undefined> = signal(undefined);
  readonly wrong: Signal<string | undefined> = signal(undefined);
  private readonly cells = new Map<string, Signal<Cell[]>>();
  private readonly box: Sandbox;
  private last = 0;

  constructor(readonly id: string) {
    this.box = sandbox(id);
  }

  cellsOf(context: string): Signal<Cell[]> {
    let cells = this.cells.get(context);
    if (!cells) {
      cells = signal([this.fresh()]);
      this.cells.set(context, cells);
    }
    return cells;
  }

  fresh(code = ""): Cell {
    this.last += 1;
    return { id: this.last, code, state: "new", outputs: [] };
  }

  /** Finds the contexts that are there, with what was run in them, or makes a first one. */
  async open(): Promise<void> {
    if (this.contexts.value) return;
    try {
      let found = await this.box.interpreter<Context[]>("GET", "/contexts");
      if (found.length === 0) found = [await this.box.interpreter<Context>("POST", "/contexts", { language: "python" })];
      await Promise.all(found.map((context) => this.restore(context.id)));
      this.contexts.value = found;
      this.shown.value ??= found[0]?.id;
      this.wrong.value = undefined;
    } catch (error) {
      this.wrong.value = messageOf(error);
    }
  }

  private async restore(context: string): Promise<void> {
    const cells = this.cellsOf(context);
    try {
      const file = await (await this.box.stream("GET", `/contexts/${encodeURIComponent(context)}/notebook`)).text();
      const past = read(file).cells.map((cell): Cell => ({ ...this.fresh(), ...cell }));
      const draft = sessionStorage.getItem(`${KEY(this.id)}.${context}`) ?? "";
      cells.value = [...past, this.fresh(draft)];
    } catch {
      // A context that has run nothing has no history to show.
    }
  }

  async add(language: string): Promise<void> {
    const made = await this.box.interpreter<Context>("POST", "/contexts", { language });
    this.contexts.value = [...(this.contexts.value ?? []), made];
    this.shown.value = made.id;
  }

  async fork(context: string): Promise<void> {
    const made = await this.box.interpreter<Context>("POST", `/contexts/${encodeURIComponent(context)}/fork`, {});
    this.cells.set(made.id, signal([...this.cellsOf(context).value.map((cell) => ({ ...cell, id: this.fresh().id }))]));
    this.contexts.value = [...(this.contexts.value ?? []), made];
    this.shown.value = made.id;
  }

  async remove(context: string): Promise<void> {
    await this.box.interpreter("DELETE", `/contexts/${encodeURIComponent(context)}`);
    this.contexts.value = (this.contexts.value ?? []).filter((one) => one.id !== context);
    this.shown.value = this.contexts.value[0]?.id;
  }

  async restart(context: string): Promise<void> {
    await this.box.interpreter("POST", `/contexts/${encodeURIComponent(context)}/restart`);
  }

  write(context: string, id: number, code: string): void {
    this.change(context, id, (cell) => ({ ...cell, code }));
    const last = this.cellsOf(context).value.at(-1);
    if (last) sessionStorage.setItem(`${KEY(this.id)}.${context}`, last.state === "new" ? last.code : "");
  }

  private change(context: string, id: number, change: (cell: Cell) => Cell): void {
    const cells = this.cellsOf(context);
    cells.value = cells.value.map((cell) => (cell.id === id ? change(cell) : cell));
  }

  insertAfter(context: string, id: number | undefined): number {
    const cells = this.cellsOf(context);
    const made = this.fresh();
    const at = id === undefined ? cells.value.length : cells.value.findIndex((cell) => cell.id === id) + 1;
    cells.value = [...cells.value.slice(0, at), made, ...cells.value.slice(at)];
    return made.id;
  }

  drop(context: string, id: number): void {
    const cells = this.cellsOf(context);
    const rest = cells.value.filter((cell) => cell.id !== id);
    cells.value = rest.length > 0 ? rest : [this.fresh()];
  }

  /** Runs a cell, and shows what it says while it does. */
  async run(context: string, id: number): Promise<void> {
    const cell = this.cellsOf(context).value.find((one) => one.id === id);
    if (!cell || cell.code.trim() === "" || cell.state === "queued" || cell.state === "running") return;
    this.change(context, id, ({ id: same, code }) => ({ id: same, code, state: "queued", outputs: [] }));
    try {
      const response = await this.box.stream("POST", "/execute", { code: cell.code, context_id: context, skep: { allow_stdin: true, outputs: "jupyter" } });
      const execution = response.headers.get("x-skep-execution");
      if (execution) this.change(context, id, (one) => ({ ...one, execution }));
      const lines = new Lines();
      const reader = response.body!.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const found = lines.take(value);
        this.change(context, id, (one) => found.reduce(folded, one));
      }
    } catch (error) {
      const text = error instanceof ApiError ? error.message : "The connection broke before the end; the code may have run on.";
      this.change(context, id, (one) => withOutput(one, { kind: "note", text }));
    }
    this.change(context, id, ended);
  }

  async interrupt(cell: Cell): Promise<void> {
    if (cell.execution) await this.box.interpreter("POST", `/executions/${encodeURIComponent(cell.execution)}/interrupt`);
  }

  async answer(context: string, cell: Cell, value: string | null): Promise<void> {
    if (!cell.execution) return;
    await this.box.interpreter("POST", `/executions/${encodeURIComponent(cell.execution)}/input`, { value });
    this.change(context, cell.id, ({ asks: _asks, ...rest }) => rest);
  }

  async complete(context: string, code: string, cursor: number): Promise<{ matches: string[]; cursor_start: number; cursor_end: number }> {
    // A kernel that runs code is not asked; it would be a conflict.
    const busy = this.cellsOf(context).value.some((cell) => cell.state === "queued" || cell.state === "running");
    if (busy) return { matches: [], cursor_start: cursor, cursor_end: cursor };
    return this.box.interpreter("POST", `/contexts/${encodeURIComponent(context)}/complete`, { code, cursor });
  }

  async help(context: string, code: string, cursor: number): Promise<string | undefined> {
    const found = await this.box.interpreter<{ found: boolean; data?: Record<string, string> }>("POST", `/contexts/${encodeURIComponent(context)}/inspect`, { code, cursor });
    return found.found ? found.data?.["text/plain"] : undefined;
  }

  async export(context: string): Promise<Blob> {
    return (await this.box.stream("GET", `/contexts/${encodeURIComponent(context)}/notebook`)).blob();
  }

  import(context: string, text: string): number {
    const { cells } = read(text);
    this.cellsOf(context).value = [...cells.map((cell): Cell => ({ ...this.fresh(), ...cell })), this.fresh()];
    return cells.length;
  }
}

const sessions = new Map<string, Session>();

export function sessionOf(id: string): Session {
  let found = sessions.get(id);
  if (!found) {
    found = new Session(id);
    sessions.set(id, found);
  }
  return found;
}

