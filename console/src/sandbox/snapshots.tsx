/** The snapshots of a sandbox as a tree, and what can be done with them. */
import { useState } from "preact/hooks";
import { call } from "../api";
import { bytes } from "../format";
import { refresh } from "../live";
import type { TabProps } from "../pages/sandbox";
import { go } from "../route";
import { toast } from "../state";
import { Act, Badge, Dialog, Empty, Pending, useLoaded, When } from "../widgets";
import { tree } from "./tree";

type Snapshot = { snapshotID: string; names: string[]; checkpointID: string; parentID?: string; parentId?: string; memory: boolean; sizeBytes: number; createdAt: string };

export function Snapshots({ record }: TabProps) {
  const id = record.sandboxID;
  const lives = record.state === "running" || record.state === "paused";
  const { value, error, again } = useLoaded(() => call<Snapshot[]>("GET", `/skep/sandboxes/${id}/checkpoints`), [id], 5000);
  const [naming, setNaming] = useState(false);
  const [forking, setForking] = useState(false);
  if (value === undefined) return <Pending error={error} />;
  const nodes = tree(value, (one) => one.checkpointID, (one) => one.parentId ?? one.parentID);
  return (
    <>
      {lives ? (
        <div class="bar">
          <button type="button" onClick={() => setNaming(true)}>
            Take a snapshot
          </button>
          <button type="button" onClick={() => setForking(true)}>
            Fork
          </button>
        </div>
      ) : null}
      {nodes.length === 0 ? (
        <Empty title="No snapshots">
          <p>A snapshot keeps a sandbox as it is: its files, and its memory where the host can. New sandboxes begin with it, and this one can be put back to it.</p>
        </Empty>
      ) : (
        <div class="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>Snapshot</th>
                <th>Holds</th>
                <th class="number">Size</th>
                <th>Taken</th>
                <th>
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {nodes.map(({ item, depth }) => (
                <tr key={item.checkpointID}>
                  <td style={{ paddingLeft: `${12 + depth * 22}px` }}>
                    {depth > 0 ? <span class="faint">└ </span> : null}
                    {item.names[0] ?? <span class="mono">{item.snapshotID}</span>}
                  </td>
                  <td>
                    <Badge kind={item.memory ? "good" : "off"}>{item.memory ? "memory and files" : "files"}</Badge>
                  </td>
                  <td class="number">{bytes(item.sizeBytes)}</td>
                  <td>
                    <When at={item.createdAt} />
                  </td>
                  <td class="row-actions">
                    <Act
                      class="small"
                      run={async () => {
                        const made = await call<{ sandboxID: string }>("POST", "/sandboxes", { templateID: item.snapshotID, timeout: 3600, secure: true });
                        await refresh();
                        go("sandboxes", made.sandboxID);
                      }}
                    >
                      New from it
                    </Act>
                    {lives ? (
                      <Act
                        class="small"
                        run={async () => {
                          await call("POST", `/skep/sandboxes/${id}/rollback`, { snapshotID: item.snapshotID });
                          toast(`${id} is as it was`);
                          await refresh();
                          again();
                        }}
                      >
                        Roll back
                      </Act>
                    ) : null}
                    <Act
                      class="small danger quiet"
                      run={async () => {
                        await call("DELETE", `/templates/${encodeURIComponent(item.snapshotID)}`);
                        again();
                      }}
                    >
                      Delete
                    </Act>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {naming ? (
        <Take
          id={id}
          close={() => {
            setNaming(false);
            again();
          }}
        />
      ) : null}
      {forking ? <ForkDialog id={id} close={() => setForking(false)} /> : null}
    </>
  );
}

function Take({ id, close }: { id: string; close: () => void }) {
  const [name, setName] = useState("");
  return (
    <Dialog title="Take a snapshot" close={close}>
      <div class="form">
        <label>
          Name <span class="faint">if it is to have one</span>
          <input value={name} spellcheck={false} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <div class="form-end">
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
          <Act
            class="primary"
            run={async () => {
              await call("POST", `/sandboxes/${id}/snapshots`, name.trim() ? { name: name.trim() } : {});
              close();
            }}
          >
            Take
          </Act>
        </div>
      </div>
    </Dialog>
  );
}

function ForkDialog({ id, close }: { id: string; close: () => void }) {
  const [count, setCount] = useState(1);
  return (
    <Dialog title="Fork" close={close}>
      <div class="form">
        <p class="faint">Copies with its memory, which go on from this moment on their own.</p>
        <label>
          How many
          <input type="number" min={1} max={100} value={count} onInput={(event) => setCount(event.currentTarget.valueAsNumber)} />
        </label>
        <div class="form-end">
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
          <Act
            class="primary"
            run={async () => {
              const made = await call<{ sandbox?: { sandboxID: string }; error?: { message: string } }[]>("POST", `/sandboxes/${id}/fork`, { count, timeout: 3600 });
              const failed = made.find((one) => one.error)?.error;
              if (failed) toast(failed.message, "error");
              await refresh();
              close();
              const first = made.find((one) => one.sandbox)?.sandbox;
              if (first) go("sandboxes", first.sandboxID);
            }}
          >
            Fork
          </Act>
        </div>
      </div>
    </Dialog>
  );
}
