/** Secrets of the team: their names. Values go in, and are shown to nobody. */
import { useState } from "preact/hooks";
import { call } from "../api";
import { Act, Dialog, Empty, Head, Pending, useActions, useLoaded, When } from "../widgets";

type Secret = { secretID: string; name: string; currentVersion: number; createdAt: string; updatedAt: string };

export function Secrets() {
  const { value, error, again } = useLoaded(() => call<Secret[]>("GET", "/secrets"), []);
  const [open, setOpen] = useState<{ known?: Secret } | undefined>();
  useActions([{ title: "New secret", run: () => setOpen({}) }], []);
  return (
    <>
      <Head title="Secrets" sub="Sealed values, by name. Rules of a sandbox's network put them into requests; code never sees them.">
        <button type="button" class="primary" onClick={() => setOpen({})}>
          New secret
        </button>
      </Head>
      {value === undefined ? (
        <Pending error={error} />
      ) : value.length === 0 ? (
        <Empty title="No secrets">
          <p>
            Keep a key of a service here, or by <code>skep secret create github-token</code>.
          </p>
        </Empty>
      ) : (
        <div class="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th class="number">Version</th>
                <th>Made</th>
                <th>Changed</th>
                <th>
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {value.map((secret) => (
                <tr key={secret.secretID}>
                  <td class="mono">{secret.name}</td>
                  <td class="number">{secret.currentVersion}</td>
                  <td>
                    <When at={secret.createdAt} />
                  </td>
                  <td>
                    <When at={secret.updatedAt} />
                  </td>
                  <td class="row-actions">
                    <button type="button" class="small" onClick={() => setOpen({ known: secret })}>
                      New value
                    </button>
                    <Act
                      class="small quiet danger"
                      run={async () => {
                        if (!confirm(`Delete the secret ${secret.name}?`)) return;
                        await call("DELETE", `/secrets/${encodeURIComponent(secret.secretID)}`);
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
      {open ? (
        <Write
          known={open.known}
          close={() => setOpen(undefined)}
          done={() => {
            setOpen(undefined);
            again();
          }}
        />
      ) : null}
    </>
  );
}

function Write({ known, close, done }: { known: Secret | undefined; close: () => void; done: () => void }) {
  const [name, setName] = useState(known?.name ?? "");
  const [value, setValue] = useState("");
  return (
    <Dialog title={known ? `New value of ${known.name}` : "New secret"} close={close}>
      <div class="form">
        {known ? null : (
          <label>
            Name
            <input class="mono" value={name} spellcheck={false} onInput={(event) => setName(event.currentTarget.value)} />
          </label>
        )}
        <label>
          Value <span class="faint">shown to nobody again</span>
          <input type="password" autocomplete="off" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
        </label>
        <div class="form-end">
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
          <Act
            class="primary"
            disabled={name.trim() === "" || value === ""}
            run={async () => {
              if (known) await call("POST", `/secrets/${encodeURIComponent(known.secretID)}`, { value });
              else await call("POST", "/secrets", { name: name.trim(), value });
              done();
            }}
          >
            Keep
          </Act>
        </div>
      </div>
    </Dialog>
  );
}
