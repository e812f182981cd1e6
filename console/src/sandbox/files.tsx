/** The files of a sandbox: looked at, changed, brought in and taken out. */
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf, sandbox } from "../api";
import { bytes } from "../format";
import type { TabProps } from "../pages/sandbox";
import { go } from "../route";
import { toast } from "../state";
import { Act, Dialog, Empty, Pending, When } from "../widgets";
import { Shown } from "./file";
import { join, parentOf } from "./path";
import { openHere } from "./terminal-request";

export type Entry = { name: string; path: string; type: string; size: number; mode: number; permissions: string; owner: string; modifiedTime?: string; symlinkTarget?: string };

type Listed = Omit<Entry, "size"> & { size?: string | number };

const DIRECTORY = "FILE_TYPE_DIRECTORY";

export function Files({ record }: TabProps) {
  const box = sandbox(record.sandboxID);
  const [path, setPath] = useState("/home/user");
  const [entries, setEntries] = useState<Entry[] | undefined>();
  const [wrong, setWrong] = useState<string | undefined>();
  const [open, setOpen] = useState<Entry | undefined>();
  const [naming, setNaming] = useState<{ kind: "folder" } | { kind: "file" } | { kind: "rename"; entry: Entry } | undefined>();
  const [over, setOver] = useState(false);
  const [upload, setUpload] = useState<{ name: string; part: number } | undefined>();
  const input = useRef<HTMLInputElement>(null);

  const list = async () => {
    const found = await box.procedure<{ entries?: Listed[] }>("filesystem.Filesystem/ListDir", { path, depth: 1 }, "root");
    const sorted = (found.entries ?? []).map((entry) => ({ ...entry, size: Number(entry.size ?? 0) }));
    sorted.sort((a, b) => Number(b.type === DIRECTORY) - Number(a.type === DIRECTORY) || a.name.localeCompare(b.name));
    return sorted;
  };
  const again = async () => {
    try {
      setEntries(await list());
      setWrong(undefined);
    } catch (error) {
      setWrong(messageOf(error));
    }
  };
  useEffect(() => {
    let current = true;
    const ask = () =>
      list().then(
        (found) => {
          if (!current) return;
          setEntries((before) => (JSON.stringify(before) === JSON.stringify(found) ? before : found));
          setWrong(undefined);
        },
        (error: unknown) => {
          if (current) setWrong(messageOf(error));
        },
      );
    setEntries(undefined);
    void ask();
    const timer = setInterval(() => void (document.hidden || ask()), 3000);
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [path]);

  const bring = async (files: FileList | File[]) => {
    for (const file of files) {
      setUpload({ name: file.name, part: 0 });
      try {
        await box.upload(join(path, file.name), file, (part) => setUpload({ name: file.name, part }));
      } catch (error) {
        toast(`${file.name}: ${messageOf(error)}`, "error", 8000);
      }
    }
    setUpload(undefined);
    await again();
  };
  const parts = path === "/" ? [] : path.slice(1).split("/");
  return (
    <div
      class={`files ${over ? "over" : ""}`}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        if (event.dataTransfer) void bring([...event.dataTransfer.files]);
      }}
    >
      <div class="bar">
        <nav class="crumbs mono" aria-label="Folder">
          <button type="button" class="link" onClick={() => setPath("/")}>
            /
          </button>
          {parts.map((part, index) => (
            <span key={index}>
              <button type="button" class="link" onClick={() => setPath(`/${parts.slice(0, index + 1).join("/")}`)}>
                {part}
              </button>
              {index < parts.length - 1 ? "/" : ""}
            </span>
          ))}
        </nav>
        <span class="spring" />
        <button type="button" class="small" onClick={() => setNaming({ kind: "file" })}>
          New file
        </button>
        <button type="button" class="small" onClick={() => setNaming({ kind: "folder" })}>
          New folder
        </button>
        <button type="button" class="small" onClick={() => input.current?.click()}>
          Upload
        </button>
        <button
          type="button"
          class="small"
          onClick={() => {
            openHere.cwd = path;
            go("sandboxes", record.sandboxID, "terminal");
          }}
        >
          Terminal here
        </button>
        <input ref={input} type="file" multiple hidden aria-label="Files to upload" onChange={(event) => void bring([...(event.currentTarget.files ?? [])])} />
      </div>
      {upload ? (
        <p class="notice" role="status">
          {upload.name} <progress value={upload.part} max={1} aria-label={`Upload of ${upload.name}`} />
        </p>
      ) : null}
      {wrong ? <p class="notice error">{wrong}</p> : null}
      <div class={`split ${open ? "has-open" : ""}`}>
        {entries === undefined ? (
          <Pending error={wrong} />
        ) : (
          <div class="scroll" tabIndex={0}>
            <table class="list">
              <thead>
                <tr>
                  <th>Name</th>
                  <th class="number">Size</th>
                  <th>Changed</th>
                  <th class="wide-only">Owner</th>
                  <th>
                    <span class="hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {path === "/" ? null : (
                  <tr>
                    <td colSpan={5}>
                      <button type="button" class="link" onClick={() => setPath(parentOf(path))}>
                        ..
                      </button>
                    </td>
                  </tr>
                )}
                {entries.map((entry) => (
                  <tr key={entry.path} class={open?.path === entry.path ? "chosen" : ""}>
                    <td class="mono">
                      <button type="button" class="link name" onClick={() => (entry.type === DIRECTORY ? setPath(entry.path) : setOpen(entry))}>
                        {entry.name}
                        {entry.type === DIRECTORY ? "/" : ""}
                      </button>
                      {entry.symlinkTarget ? <span class="faint"> → {entry.symlinkTarget}</span> : null}
                    </td>
                    <td class="number">{entry.type === DIRECTORY ? "" : bytes(entry.size)}</td>
                    <td>
                      <When at={entry.modifiedTime} />
                    </td>
                    <td class="wide-only faint">
                      {entry.owner} <span class="mono">{entry.permissions}</span>
                    </td>
                    <td class="row-actions">
                      <button type="button" class="small quiet" onClick={() => setNaming({ kind: "rename", entry })}>
                        Rename
                      </button>
                      <Act
                        class="small quiet danger"
                        aria-label={`Delete ${entry.name}`}
                        run={async () => {
                          if (!confirm(`Delete ${entry.path}${entry.type === DIRECTORY ? " and all that is in it" : ""}?`)) return;
                          await box.procedure("filesystem.Filesystem/Remove", { path: entry.path }, "root");
                          if (open?.path === entry.path) setOpen(undefined);
                          await again();
                        }}
                      >
                        Delete
                      </Act>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {entries.length === 0 ? (
              <Empty title="An empty folder">
                <p>Drop files here to upload them.</p>
              </Empty>
            ) : null}
          </div>
        )}
        {open ? <Shown key={open.path} box={box} entry={open} close={() => setOpen(undefined)} /> : null}
      </div>
      {naming ? (
        <Name
          wanted={naming.kind}
          usual={naming.kind === "rename" ? naming.entry.name : ""}
          close={() => setNaming(undefined)}
          done={async (name) => {
            const target = join(path, name);
            if (naming.kind === "folder") await box.procedure("filesystem.Filesystem/MakeDir", { path: target });
            else if (naming.kind === "file") await box.upload(target, new Blob([]), () => undefined);
            else await box.procedure("filesystem.Filesystem/Move", { source: naming.entry.path, destination: target }, "root");
            setNaming(undefined);
            await again();
          }}
        />
      ) : null}
    </div>
  );
}

function Name({ wanted, usual, close, done }: { wanted: "folder" | "file" | "rename"; usual: string; close: () => void; done: (name: string) => Promise<void> }) {
  const [name, setName] = useState(usual);
  const title = { folder: "New folder", file: "New file", rename: "Rename" }[wanted];
  return (
    <Dialog title={title} close={close}>
      <div class="form">
        <label>
          Name
          <input class="mono" value={name} spellcheck={false} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <div class="form-end">
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
          <Act class="primary" disabled={name.trim() === ""} run={() => done(name.trim())}>
            {title}
          </Act>
        </div>
      </div>
    </Dialog>
  );
}
