/** API keys of the team, those of browsers among them. */
import { useState } from "preact/hooks";
import { call } from "../api";
import { Act, Badge, Code, Dialog, Head, Pending, useActions, useLoaded, When } from "../widgets";

type Key = { id: string; name: string; mask: { prefix: string; maskedValuePrefix: string; maskedValueSuffix: string }; createdAt: string; lastUsed?: string; expiresAt?: string };

export function Keys() {
  const { value, error, again } = useLoaded(() => call<Key[]>("GET", "/api-keys"), []);
  const [making, setMaking] = useState(false);
  useActions([{ title: "New key", run: () => setMaking(true) }], []);
  return (
    <>
      <Head title="Keys" sub="Who holds one acts for the team. Those named console are of browsers, and end by themselves.">
        <button type="button" class="primary" onClick={() => setMaking(true)}>
          New key
        </button>
      </Head>
      {value === undefined ? (
        <Pending error={error} />
      ) : (
        <div class="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th>Key</th>
                <th>Made</th>
                <th>Last used</th>
                <th>Ends</th>
                <th>
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {value.map((key) => (
                <tr key={key.id}>
                  <td>
                    {key.name} {key.expiresAt ? <Badge kind="info">browser</Badge> : null}
                  </td>
                  <td class="mono faint">
                    {key.mask.prefix}
                    {key.mask.maskedValuePrefix}…{key.mask.maskedValueSuffix}
                  </td>
                  <td>
                    <When at={key.createdAt} />
                  </td>
                  <td>
                    <When at={key.lastUsed} />
                  </td>
                  <td>{key.expiresAt ? <When at={key.expiresAt} /> : <span class="faint">never</span>}</td>
                  <td class="row-actions">
                    <Act
                      class="small quiet danger"
                      aria-label={`Revoke ${key.name}`}
                      run={async () => {
                        if (!confirm(`Revoke ${key.name}? Whoever uses it is shut out at once.`)) return;
                        await call("DELETE", `/api-keys/${encodeURIComponent(key.id)}`);
                        again();
                      }}
                    >
                      Revoke
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
          close={() => {
            setMaking(false);
            again();
          }}
        />
      ) : null}
    </>
  );
}

function Make({ close }: { close: () => void }) {
  const [name, setName] = useState("");
  const [made, setMade] = useState<string | undefined>();
  return (
    <Dialog title="New key" close={close}>
      {made ? (
        <div class="form">
          <p>This is the only time that it is shown.</p>
          <Code text={made} />
          <div class="form-end">
            <button type="button" class="primary" onClick={close}>
              Done
            </button>
          </div>
        </div>
      ) : (
        <div class="form">
          <label>
            Name <span class="faint">whose it is</span>
            <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
          </label>
          <div class="form-end">
            <button type="button" class="quiet" onClick={close}>
              Cancel
            </button>
            <Act class="primary" disabled={name.trim() === ""} run={async () => setMade((await call<{ key: string }>("POST", "/api-keys", { name: name.trim() })).key)}>
              Make
            </Act>
          </div>
        </div>
      )}
    </Dialog>
  );
}
