/** What a cell has produced. Markup of any kind goes into a frame of another origin. */
import { useEffect, useState } from "preact/hooks";
import { FrameOf } from "../frame/host";
import { Badge } from "../widgets";
import { overwritten, pieces } from "./ansi";
import type { Output, Result } from "./cell";
import { Chart, isChart } from "./chart";

export function Outputs({ outputs }: { outputs: Output[] }) {
  return (
    <div class="outputs">
      {outputs.map((output, index) => (
        <One key={index} output={output} />
      ))}
    </div>
  );
}

function One({ output }: { output: Output }) {
  switch (output.kind) {
    case "stream":
      return (
        <pre class={output.name}>
          <Colored text={overwritten(output.text)} />
        </pre>
      );
    case "note":
      return <p class="notice">{output.text}</p>;
    case "error":
      return (
        <div class="raised">
          <p>
            {output.what ? <Badge kind="bad">{output.what.replaceAll("_", " ")}</Badge> : null} <strong>{output.name}</strong>
            {output.value ? `: ${output.value}` : ""}
          </p>
          {output.traceback ? (
            <pre>
              <Colored text={output.traceback} />
            </pre>
          ) : null}
        </div>
      );
    case "result":
      return <Shown result={output.result} />;
  }
}

export function Colored({ text }: { text: string }) {
  return (
    <>
      {pieces(text).map((piece, index) => (
        <span key={index} class={piece.classes || undefined}>
          {piece.text}
        </span>
      ))}
    </>
  );
}

type View = "chart" | "table" | "page" | "picture" | "json" | "text";

function Shown({ result }: { result: Result }) {
  const table = tableOf(result.data);
  const views: View[] = [];
  if (isChart(result.chart)) views.push("chart");
  if (result.png || result.jpeg) views.push("picture");
  if (table) views.push("table");
  if (result.html || result.markdown || result.svg || result.javascript) views.push("page");
  if (result.json !== undefined) views.push("json");
  // Of a picture the text is only the name of its class.
  if ((result.text !== undefined || result.latex !== undefined) && !views.includes("picture")) views.push("text");
  // A picture is what its author drew; the chart of its numbers is one click away.
  const usual = views.includes("picture") ? "picture" : views[0];
  const [chosen, setChosen] = useState<View | undefined>(usual);
  return (
    <div class="result">
      {views.length > 1 ? (
        <div class="views">
          {views.map((view) => (
            <button key={view} type="button" class="small quiet" aria-pressed={view === chosen} onClick={() => setChosen(view)}>
              {view}
            </button>
          ))}
        </div>
      ) : null}
      {chosen === "chart" && isChart(result.chart) ? <Chart chart={result.chart} /> : null}
      {chosen === "picture" ? <Picture base64={result.png ?? result.jpeg ?? ""} kind={result.png ? "image/png" : "image/jpeg"} /> : null}
      {chosen === "table" && table ? <Table {...table} /> : null}
      {chosen === "page" ? <FrameOf bundle={bundleOf(result)} /> : null}
      {chosen === "json" ? <pre>{JSON.stringify(result.json, null, 2)}</pre> : null}
      {chosen === "text" ? (
        <pre>
          <Colored text={result.text ?? result.latex ?? ""} />
        </pre>
      ) : null}
    </div>
  );
}

function bundleOf(result: Result): Record<string, string> {
  const bundle: Record<string, string> = {};
  if (result.html !== undefined) bundle["text/html"] = result.html;
  if (result.markdown !== undefined) bundle["text/markdown"] = result.markdown;
  if (result.svg !== undefined) bundle["image/svg+xml"] = result.svg;
  if (result.javascript !== undefined) bundle["application/javascript"] = result.javascript;
  return bundle;
}

function Picture({ base64, kind }: { base64: string; kind: string }) {
  const [url, setUrl] = useState<string | undefined>();
  useEffect(() => {
    let made: string | undefined;
    try {
      const bytes = Uint8Array.from(atob(base64.replaceAll("\n", "")), (sign) => sign.charCodeAt(0));
      made = URL.createObjectURL(new Blob([bytes], { type: kind }));
      setUrl(made);
    } catch {
      setUrl(undefined);
    }
    return () => {
      if (made) URL.revokeObjectURL(made);
    };
  }, [base64]);
  return url ? <img class="picture" src={url} alt="What the code has drawn" /> : null;
}

type TableOf = { names: string[]; rows: unknown[][]; more: number };
const MOST_ROWS = 200;

/** The rows of `e2b/data`, whose columns are lists. */
export function tableOf(data: unknown): TableOf | undefined {
  if (typeof data !== "object" || data === null || Array.isArray(data)) return undefined;
  const columns = Object.entries(data);
  if (columns.length === 0 || !columns.every((column): column is [string, unknown[]] => Array.isArray(column[1]))) return undefined;
  const height = Math.max(...columns.map(([, values]) => (values as unknown[]).length));
  const rows = Array.from({ length: Math.min(height, MOST_ROWS) }, (_, row) => columns.map(([, values]) => (values as unknown[])[row]));
  return { names: columns.map(([name]) => name), rows, more: Math.max(0, height - MOST_ROWS) };
}

function Table({ names, rows, more }: TableOf) {
  return (
    <div class="scroll data" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {names.map((name, index) => (
              <th key={index}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {row.map((value, column) => (
                <td key={column} class={typeof value === "number" ? "number" : ""}>
                  {value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {more > 0 ? <p class="faint">{more} more rows</p> : null}
    </div>
  );
}
