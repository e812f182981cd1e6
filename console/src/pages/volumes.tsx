/** Volumes: files that outlive sandboxes and are shared by them. */
import { useState } from "preact/hooks";
import { call } from "../api";
import { bytes, mebibytes } from "../format";
import { href } from "../route";
import { Act, Badge, Dialog, Empty, Head, Pending, useActions, useLoaded, When } from "../widgets";

type Volume = { volumeID: string; name: string; skep: { sizeMB: number; readOnly: boolean; source?: string; createdAt: string; usedBytes?: number; usedBy?: string[] } };

export function Volumes() {
  const { value, error, again } = useLoaded(async () => {
    const listed = await call<Volume[]>("GET", "/volumes");
    // What one holds and who has it is told of each alone.
    return Promise.all(listed.slice(0, 50).map((volume) => call<Volume>("GET", `/volumes/${encodeURIComponent(volume.volumeID)}`).catch(() => volume)));
  }, []);
  const [making, setMaking] = useState<{ source?: string } | undefined>();
  useActions([{ title: "New volume", run: () => setMaking({}) }], []);
  return (
    <>
      <Head title="Volumes" sub="Files that outlive sandboxes and are shared by them.">
        <button type="button" class="primary" onClick={() => setMaking({})}>
          New volume
        </button>
      </Head>
      {value === undefined ? (
        <Pending error={error} />
      ) : value.length === 0 ? (
        <Empty title="No volumes">
          <p>
            A volume is a disk of its own that sandboxes are given at a path. Copy files into one by <code>skep volume cp ./models data:/models</code>.
          </p>
        </Empty>
      ) : (
        <div class="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th>Holds</th>
                <th>Kind</th>
                <th>Had by</th>
                <th>Made</th>
                <th>
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {value.map((volume) => (
                <tr key={volume.volumeID}>
                  <td class="mono">{volume.name}</td>
                  <td>
                    <meter min={0} max={volume.skep.sizeMB * 1048576} value={volume.skep.usedBytes ?? 0} aria-label={`${volume.name} holds`} /> {volume.skep.usedBytes === undefined ? "" : `${bytes(volume.skep.usedBytes)} of `}
                    {mebibytes(volume.skep.sizeMB)}
                  </td>
                  <td>
                    {volume.skep.readOnly ? <Badge kind="info">read only</Badge> : null}
                    {volume.skep.source ? <span class="faint"> copy of {volume.skep.source}</span> : null}
                  </td>
                  <td>
                    {(volume.skep.usedBy ?? []).map((id) => (
                      <a key={id} class="mono" href={href("sandboxes", id)}>
                        {id}{" "}
                      </a>
                    ))}
                  </td>
                  <td>
                    <When at={volume.skep.createdAt} />
                  </td>
                  <td class="row-actions">
                    <button type="button" class="small" onClick={() => setMaking({ source: volume.name })}>
                      Copy
                    </button>
                    <Act
                      class="small quiet danger"
                      run={async () => {
                        if (!confirm(`Delete the volume ${volume.name} and all that is in it?`)) return;
                        await call("DELETE", `/volumes/${encodeURIComponent(volume.volumeID)}`);
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
      {making ? (
        <Make
          source={making.source}
          close={() => setMaking(undefined)}
          done={() => {
            setMaking(undefined);
            again();
          }}
        />
      ) : null}
    </>
  );
}

function Make({ source, close, done }: { source: string | undefined; close: () => void; done: () => void }) {
  const [name, setName] = useState("");
  return (
    <Dialog title={source ? `Copy of ${source}` : "New volume"} close={close}>
      <div class="form">
        <label>
          Name <span class="faint">letters, digits, _ and -</span>
          <input class="mono" value={name} spellcheck={false} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <div class="form-end">
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
          <Act
            class="primary"
            disabled={name.trim() === ""}
            run={async () => {
              await call("POST", "/volumes", source ? { name: name.trim(), skep: { source } } : { name: name.trim() });
              done();
            }}
          >
            Make
          </Act>
        </div>
      </div>
    </Dialog>
  );
}
