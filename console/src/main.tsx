/** The console: who is let in, and which page is shown. */
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { begin, enterWith, forget, hasKey, messageOf, reachable, refusal, team } from "./api";
import { connected, follow, refresh } from "./live";
import { PAGES, SANDBOX, ready, type PageComponent } from "./pages";
import { Palette, openPalette } from "./palette";
import { followAddress, href, place } from "./route";
import { dismiss, keepLooks, theme, toast, toasts, utc, type Theme } from "./state";
import { Sandboxes } from "./pages/sandboxes";
import "./style.css";

const loaded = new Map<() => Promise<PageComponent>, PageComponent>([[ready, Sandboxes]]);

function Shown() {
  const { page, id, tab } = place.value;
  const known = PAGES.find((one) => one.name === page);
  const load = page === "sandboxes" && id !== undefined ? SANDBOX : known?.load;
  const [, setTurn] = useState(0);
  useEffect(() => {
    document.title = `${id ?? known?.title ?? "Not here"} · Skep`;
    if (!load || loaded.has(load)) return;
    load().then(
      (component) => {
        loaded.set(load, component);
        setTurn((turn) => turn + 1);
      },
      () => toast("a part of this page could not be loaded; reload the page", "error", 10_000),
    );
  }, [load, id]);
  if (!load) {
    return (
      <div class="empty">
        <h2>There is no such page</h2>
        <a href={href("sandboxes")}>Sandboxes</a>
      </div>
    );
  }
  const Component = loaded.get(load);
  const rest: { id?: string; tab?: string } = {};
  if (id !== undefined) rest.id = id;
  if (tab !== undefined) rest.tab = tab;
  return Component ? <Component key={`${page}/${id ?? ""}`} {...rest} /> : <p class="faint pending">Loading…</p>;
}

function Side() {
  const { page } = place.value;
  const groups = [...new Set(PAGES.map((one) => one.group))];
  return (
    <nav class="side" aria-label="Pages">
      <a class="brand" href={href("sandboxes")}>
        <img src="/console/mark.svg" alt="" width="22" height="22" /> Skep
      </a>
      {groups.map((group) => (
        <div class="group" key={group}>
          <span class="group-name">{group}</span>
          {PAGES.filter((one) => one.group === group).map((one) => (
            <a key={one.name} href={href(one.name)} aria-current={page === one.name ? "page" : undefined}>
              {one.title}
            </a>
          ))}
        </div>
      ))}
      <div class="side-end">
        <button type="button" class="quiet wide palette-button" onClick={openPalette}>
          <span>Go to…</span> <kbd>Ctrl K</kbd>
        </button>
        <div class="looks">
          <select
            aria-label="Colours"
            value={theme.value}
            onChange={(event) => {
              theme.value = event.currentTarget.value as Theme;
            }}
          >
            <option value="system">System</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
          <select
            aria-label="Time zone"
            value={utc.value ? "utc" : "local"}
            onChange={(event) => {
              utc.value = event.currentTarget.value === "utc";
            }}
          >
            <option value="local">Local</option>
            <option value="utc">UTC</option>
          </select>
        </div>
        <div class="team" title={team.value?.teamID}>
          <span class={`dot ${connected.value ? "on" : ""}`} role="img" aria-label={connected.value ? "connected" : "not connected"} />
          <span class="team-name">{team.value?.name}</span>
          {hasKey() ? (
            <button type="button" class="small quiet" onClick={forget} title="Forgets the key of this tab">
              Leave
            </button>
          ) : null}
        </div>
      </div>
    </nav>
  );
}

function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((one) => (
        <div class={`toast ${one.kind}`} key={one.id}>
          <span>{one.text}</span>
          {one.undo ? (
            <button
              type="button"
              class="small"
              onClick={() => {
                one.undo?.();
                dismiss(one.id);
              }}
            >
              Undo
            </button>
          ) : (
            <button type="button" class="small quiet" aria-label="Dismiss" onClick={() => dismiss(one.id)}>
              ✕
            </button>
          )}
        </div>
      ))}
    </div>
  );
}

function Door() {
  const [text, setText] = useState("");
  return (
    <main class="door">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          enterWith(text.trim()).catch((error: unknown) => toast(messageOf(error), "error"));
        }}
      >
        <h1>
          <img src="/console/mark.svg" alt="" width="32" height="32" /> Skep
        </h1>
        {refusal.value ? (
          <p class="notice error" role="alert">
            {refusal.value}
          </p>
        ) : null}
        <p>
          Run <code>skep console</code> on a machine that has your key, and open the link that it prints. Or show the key itself; it stays in this tab.
        </p>
        <label>
          API key
          <input
            type="password"
            autocomplete="off"
            spellcheck={false}
            placeholder="e2b_…"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary" disabled={text.trim() === ""}>
          Enter
        </button>
      </form>
    </main>
  );
}

function Console() {
  const team_ = team.value;
  useEffect(() => {
    if (!team_) return undefined;
    void refresh();
    return follow();
  }, [team_]);
  if (!team_) return <Door />;
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>
        Skip to the page
      </a>
      <Side />
      <main id="main" tabIndex={0}>
        {reachable.value ? null : (
          <p class="banner" role="alert">
            The server does not answer. This page goes on when it does.
          </p>
        )}
        <Shown />
      </main>
      <Palette />
    </div>
  );
}

keepLooks();
await begin();
followAddress();
render(
  <>
    <Console />
    <Toasts />
  </>,
  document.getElementById("app")!,
);
