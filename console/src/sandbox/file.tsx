/** One file: text to edit, a picture, rows, or something to download. */
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf, type Sandbox } from "../api";
import { edit, type Editor } from "../editor";
import { bytes } from "../format";
import { FrameOf } from "../frame/host";
import { toast } from "../state";
import { Act, Pending } from "../widgets";
import type { Entry } from "./files";
import { extensionOf, rowsOf } from "./path";

const LARGEST_TEXT = 2 << 20;
const LARGEST_PICTURE = 20 << 20;
const MOST_ROWS = 500;
const PICTURES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };

type Content = { kind: "text"; text: string } | { kind: "picture"; url: string } | { kind: "other"; why: string };

export function Shown({ box, entry, close }: { box: Sandbox; entry: Entry; close: () => void }) {
  const [content, setContent] = useState<Content | undefined>();
  const [wrong, setWrong] = useState<string | undefined>();
  const [look, setLook] = useState<"text" | "table" | "page">("text");
  const extension = extensionOf(entry.name);
  useEffect(() => {
    let url: string | undefined;
    let current = true;
    read(box, entry).then(
      (found) => {
        if (found.kind === "picture") url = found.url;
        if (current) setContent(found);
        else if (url) URL.revokeObjectURL(url);
      },
      (error: unknown) => {
        if (current) setWrong(messageOf(error));
      },
    );
    return () => {
      current = false;
      if (url) URL.revokeObjectURL(url);
    };
  }, []);
  const download = async () => {
    const response = await box.agent("GET", `/files?path=${encodeURIComponent(entry.path)}&username=root`);
    const url = URL.createObjectURL(await response.blob());
    const link = document.createElement("a");
    link.href = url;
    link.download = entry.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  };
  const looks = content?.kind === "text" ? (["csv", "tsv"].includes(extension) ? ["text", "table"] : ["html", "htm", "svg"].includes(extension) ? ["text", "page"] : []) : [];
  return (
    <div class="open-file">
      <div class="bar">
        <strong class="mono cut">{entry.path}</strong>
        <span class="faint">{bytes(entry.size)}</span>
        <span class="spring" />
        {looks.map((one) => (
          <button key={one} type="button" class="small" aria-pressed={look === one} onClick={() => setLook(one as "text" | "table" | "page")}>
            {one}
          </button>
        ))}
        <Act class="small" run={download}>
          Download
        </Act>
        <button type="button" class="small quiet" onClick={close} aria-label="Close the file">
          ✕
        </button>
      </div>
      {content === undefined ? (
        <Pending error={wrong} />
      ) : content.kind === "picture" ? (
        <img class="picture" src={content.url} alt={entry.name} />
      ) : content.kind === "other" ? (
        <p class="faint">{content.why}</p>
      ) : look === "table" ? (
        <Rows rows={rowsOf(extension === "tsv" ? content.text.replaceAll("\t", ",") : content.text, MOST_ROWS)} />
      ) : look === "page" ? (
        <FrameOf bundle={extension === "svg" ? { "image/svg+xml": content.text } : { "text/html": content.text }} />
      ) : (
        <Text box={box} entry={entry} text={content.text} language={extension} />
      )}
    </div>
  );
}

async function read(box: Sandbox, entry: Entry): Promise<Content> {
  const picture = PICTURES[extensionOf(entry.name)];
  const most = picture ? LARGEST_PICTURE : LARGEST_TEXT;
  if (entry.size > most) return { kind: "other", why: `Larger than ${bytes(most)}; download it to look at it.` };
  const response = await box.agent("GET", `/files?path=${encodeURIComponent(entry.path)}&username=root`);
  if (picture) return { kind: "picture", url: URL.createObjectURL(new Blob([await response.arrayBuffer()], { type: picture })) };
  const content = new Uint8Array(await response.arrayBuffer());
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    if (!text.includes("\0")) return { kind: "text", text };
  } catch {
    // Not text.
  }
  return { kind: "other", why: "This is not text; download it to look at it." };
}

function Rows({ rows }: { rows: string[][] }) {
  const [head, ...rest] = rows;
  return (
    <div class="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {(head ?? []).map((name, index) => (
              <th key={index}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rest.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === MOST_ROWS ? <p class="faint">The first {MOST_ROWS} rows.</p> : null}
    </div>
  );
}

function Text({ box, entry, text, language }: { box: Sandbox; entry: Entry; text: string; language: string }) {
  const element = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | undefined>(undefined);
  const [changed, setChanged] = useState(false);
  const seen = useRef(entry.modifiedTime);
  const save = async () => {
    const { entry: present } = await box.procedure<{ entry?: Entry }>("filesystem.Filesystem/Stat", { path: entry.path }, "root");
    if (present?.modifiedTime !== seen.current && !confirm(`${entry.name} was changed in the sandbox since it was opened. Overwrite it?`)) return;
    await box.upload(entry.path, new Blob([editor.current!.text()]), () => undefined, entry.owner);
    const after = await box.procedure<{ entry?: Entry }>("filesystem.Filesystem/Stat", { path: entry.path }, "root");
    seen.current = after.entry?.modifiedTime;
    setChanged(false);
    toast(`${entry.name} is saved`);
  };
  const saveLatest = useRef(save);
  saveLatest.current = save;
  useEffect(() => {
    editor.current = edit(element.current!, {
      text,
      language,
      label: entry.name,
      numbers: true,
      changed: () => setChanged(true),
      keys: [
        {
          key: "Mod-s",
          run: () => {
            saveLatest.current().catch((error: unknown) => toast(messageOf(error), "error"));
            return true;
          },
        },
      ],
    });
    return () => editor.current?.destroy();
  }, []);
  return (
    <>
      <div class="editor" ref={element} />
      <div class="bar">
        <Act class="primary small" disabled={!changed} run={save}>
          Save <kbd>Ctrl S</kbd>
        </Act>
        {changed ? <span class="faint">not saved</span> : null}
      </div>
    </>
  );
}
