/** Code in a sandbox, cell by cell. */
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "../api";
import { edit, type Editor } from "../editor";
import { bytes, micros } from "../format";
import type { TabProps } from "../pages/sandbox";
import { toast } from "../state";
import { Act, Badge, Empty, Pending } from "../widgets";
import { fromCharacters, toCharacters, type Cell } from "./cell";
import { Colored, Outputs } from "./outputs";
import { sessionOf, type Context, type Session } from "./session";

const LANGUAGES = ["python", "javascript", "typescript", "bash", "r", "java"];

export function Notebook({ record }: TabProps) {
  const session = sessionOf(record.sandboxID);
  const lives = record.state === "running";
  const [language, setLanguage] = useState("python");
  const file = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (lives) void session.open();
  }, [lives]);
  const contexts = session.contexts.value;
  if (session.wrong.value !== undefined && !contexts) {
    return (
      <Empty title="No interpreter here">
        <p>{session.wrong.value}</p>
        <p class="faint">Templates such as <code>code-interpreter-v1</code> have kernels. Terminal and Files work in all of them.</p>
      </Empty>
    );
  }
  if (!contexts) return lives ? <Pending error={undefined} /> : <Empty title="No notebook is open here"><p>The sandbox does not run, and nothing of its notebook was looked at in this tab.</p></Empty>;
  const shown = contexts.find((context) => context.id === session.shown.value) ?? contexts[0];
  const download = async () => {
    if (!shown) return;
    const url = URL.createObjectURL(await session.export(shown.id));
    const link = document.createElement("a");
    link.href = url;
    link.download = `${record.sandboxID}-${shown.language}.ipynb`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  };
  return (
    <div class="notebook">
      <div class="bar subtabs">
        <div role="tablist" aria-label="Contexts" class="subtabs-list">
          {contexts.map((context, index) => (
            <button
              key={context.id}
              type="button"
              role="tab"
              class="subtab"
              aria-selected={context === shown}
              title={context.id}
              onClick={() => {
                session.shown.value = context.id;
              }}
            >
              {context.language} <span class="faint">{index + 1}</span>
            </button>
          ))}
        </div>
        {lives ? (
          <>
            <select aria-label="Language of a new context" value={language} onChange={(event) => setLanguage(event.currentTarget.value)}>
              {LANGUAGES.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
            <Act class="small" run={() => session.add(language)}>
              New context
            </Act>
          </>
        ) : null}
        <span class="spring" />
        {shown && lives ? (
          <>
            <Act class="small quiet" run={() => session.restart(shown.id).then(() => toast("the kernel is a new one"))}>
              Restart
            </Act>
            <Act class="small quiet" title="A copy with all variables" run={() => session.fork(shown.id)}>
              Fork
            </Act>
            <Act class="small quiet" run={download}>
              Download .ipynb
            </Act>
            <button type="button" class="small quiet" onClick={() => file.current?.click()}>
              Open .ipynb
            </button>
            <Act class="small quiet danger" run={() => session.remove(shown.id)}>
              Remove
            </Act>
            <input
              ref={file}
              type="file"
              accept=".ipynb,application/json"
              hidden
              aria-label="Notebook to open"
              onChange={async (event) => {
                const chosen = event.currentTarget.files?.[0];
                event.currentTarget.value = "";
                if (!chosen) return;
                try {
                  session.import(shown.id, await chosen.text());
                } catch (error) {
                  toast(`${chosen.name}: ${messageOf(error)}`, "error");
                }
              }}
            />
          </>
        ) : null}
      </div>
      {shown ? <Cells key={shown.id} session={session} context={shown} lives={lives} /> : <p class="faint">No context. Make one.</p>}
    </div>
  );
}

function Cells({ session, context, lives }: { session: Session; context: Context; lives: boolean }) {
  const cells = session.cellsOf(context.id).value;
  const [wanted, setWanted] = useState<number | undefined>(cells.length === 1 ? cells[0]?.id : undefined);
  /** Runs a cell and goes on to the next, which is made if there is none. */
  const runAndGoOn = (id: number) => {
    void session.run(context.id, id);
    const all = session.cellsOf(context.id).value;
    const next = all[all.findIndex((cell) => cell.id === id) + 1];
    setWanted(next?.id ?? session.insertAfter(context.id, undefined));
  };
  return (
    <div class="cells">
      {cells.map((cell) => (
        <One key={cell.id} session={session} context={context} cell={cell} lives={lives} wanted={wanted === cell.id} runAndGoOn={() => runAndGoOn(cell.id)} />
      ))}
      {lives ? (
        <button type="button" class="quiet add-cell" onClick={() => setWanted(session.insertAfter(context.id, undefined))}>
          + Cell
        </button>
      ) : null}
    </div>
  );
}

function One({ session, context, cell, lives, wanted, runAndGoOn }: { session: Session; context: Context; cell: Cell; lives: boolean; wanted: boolean; runAndGoOn: () => void }) {
  const element = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | undefined>(undefined);
  const [help, setHelp] = useState<string | undefined>();
  const busy = cell.state === "queued" || cell.state === "running";
  const goOn = useRef(runAndGoOn);
  goOn.current = runAndGoOn;
  useEffect(() => {
    const made = edit(element.current!, {
      text: cell.code,
      language: context.language,
      label: `Code of cell ${cell.id}`,
      changed: (code) => session.write(context.id, cell.id, code),
      complete: async (asked) => {
        const word = asked.matchBefore(/[\w.]+/);
        if (!asked.explicit && (!word || word.text.length < 2)) return null;
        const code = asked.state.doc.toString();
        try {
          const found = await session.complete(context.id, code, toCharacters(code, asked.pos));
          if (found.matches.length === 0) return null;
          return { from: fromCharacters(code, found.cursor_start), to: fromCharacters(code, found.cursor_end), options: found.matches.slice(0, 200).map((label) => ({ label })), validFor: /^[\w.]*$/ };
        } catch {
          // A kernel that runs code is not asked.
          return null;
        }
      },
      keys: [
        { key: "Shift-Enter", run: () => (goOn.current(), true) },
        { key: "Mod-Enter", run: () => (void session.run(context.id, cell.id), true) },
        {
          key: "Shift-Tab",
          run: (view) => {
            const code = view.state.doc.toString();
            session.help(context.id, code, toCharacters(code, view.state.selection.main.head)).then(
              (text) => setHelp(text ?? "Nothing is known of this."),
              (error: unknown) => setHelp(messageOf(error)),
            );
            return true;
          },
        },
        { key: "Escape", run: () => (setHelp(undefined), false) },
      ],
    });
    editor.current = made;
    return () => made.destroy();
  }, []);
  useEffect(() => {
    if (wanted) {
      editor.current?.view.focus();
      element.current?.scrollIntoView({ block: "nearest" });
    }
  }, [wanted]);
  return (
    <section class={`cell ${cell.state}`} aria-label={`Cell ${cell.id}`}>
      <div class="gutter">
        <span class="count mono">{busy ? "[*]" : cell.count === undefined ? "[ ]" : `[${cell.count}]`}</span>
        {busy ? (
          <Act class="small danger run" aria-label="Interrupt" title="Interrupt" run={() => session.interrupt(cell)}>
            ■
          </Act>
        ) : (
          <button type="button" class="small run" aria-label="Run" title="Run (Shift-Enter)" disabled={!lives} onClick={() => void session.run(context.id, cell.id)}>
            ▶
          </button>
        )}
      </div>
      <div class="cell-body">
        <div class="code" ref={element} />
        {help === undefined ? null : (
          <div class="help" role="note">
            <button type="button" class="small quiet" onClick={() => setHelp(undefined)} aria-label="Close help">
              ✕
            </button>
            <pre>
              <Colored text={help} />
            </pre>
          </div>
        )}
        {cell.state === "queued" ? <p class="faint small-text">Waits for its turn</p> : null}
        <Outputs outputs={cell.outputs} />
        {cell.asks ? <Question session={session} context={context} cell={cell} /> : null}
        {cell.receipt ? <Receipt cell={cell} /> : null}
      </div>
      <div class="cell-end">
        {busy ? null : (
          <button type="button" class="small quiet" aria-label="Remove this cell" onClick={() => session.drop(context.id, cell.id)}>
            ✕
          </button>
        )}
      </div>
    </section>
  );
}

function Receipt({ cell }: { cell: Cell }) {
  const receipt = cell.receipt!;
  return (
    <p class="receipt">
      {receipt.outcome === "ok" ? <Badge kind="good">ok</Badge> : <Badge kind="bad">{receipt.outcome.replaceAll("_", " ")}</Badge>}
      <span title="how long it ran">{micros(receipt.wall_us)}</span>
      {receipt.cpu_us === undefined ? null : <span title="processor time of all its processes">cpu {micros(receipt.cpu_us)}</span>}
      {receipt.peak_memory_bytes === undefined ? null : <span title="the most memory at once">peak {bytes(receipt.peak_memory_bytes)}</span>}
      {receipt.queued_us > 100_000 ? <span title="how long it waited for its turn">waited {micros(receipt.queued_us)}</span> : null}
      {receipt.out_of_memory_kills ? <span class="bad-text">{receipt.out_of_memory_kills} killed for memory</span> : null}
    </p>
  );
}

function Question({ session, context, cell }: { session: Session; context: Context; cell: Cell }) {
  const [text, setText] = useState("");
  const answer = (value: string | null) => {
    session.answer(context.id, cell, value).catch((error: unknown) => toast(messageOf(error), "error"));
  };
  return (
    <form
      class="question"
      onSubmit={(event) => {
        event.preventDefault();
        answer(text);
      }}
    >
      <label>
        <span>{cell.asks!.prompt || "Input"}</span>
        {cell.asks!.password ? (
          <input type="password" autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        ) : (
          <input autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        )}
      </label>
      <button type="submit" class="small primary">
        Answer
      </button>
      <button type="button" class="small quiet" onClick={() => answer(null)}>
        End of input
      </button>
    </form>
  );
}
