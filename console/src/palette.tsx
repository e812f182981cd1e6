/** Ctrl-K: every page, every sandbox, and what the page that is shown can do. */
import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { records } from "./live";
import { PAGES } from "./pages";
import { matches } from "./match";
import { go } from "./route";
import { pageActions, theme, type Action } from "./state";

const open = signal(false);

export function openPalette(): void {
  open.value = true;
}

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    open.value = !open.value;
  }
});

function offered(): Action[] {
  const pages = PAGES.map((page) => ({ title: page.title, hint: "page", run: () => go(page.name) }));
  const sandboxes = (records.value ?? []).slice(0, 200).map((record) => ({
    title: `${record.sandboxID} ${record.alias}`,
    hint: record.state,
    run: () => go("sandboxes", record.sandboxID),
  }));
  const looks = (["light", "dark", "system"] as const).map((look) => ({
    title: `Colours: ${look}`,
    hint: "look",
    run: () => {
      theme.value = look;
    },
  }));
  return [...pageActions.value, ...pages, ...sandboxes, ...looks];
}

export function Palette() {
  return open.value ? <Open /> : null;
}

function Open() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const all = useMemo(offered, []);
  const found = all.filter((action) => matches(text, `${action.title} ${action.hint ?? ""}`)).slice(0, 12);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const close = () => {
    open.value = false;
  };
  const run = (action: Action | undefined) => {
    if (!action) return;
    close();
    action.run();
  };
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Go to"
      onClose={close}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found[chosen] ? `palette-${chosen}` : undefined}
        aria-label="Search pages, sandboxes and actions"
        placeholder="Search pages, sandboxes and actions"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setChosen((at) => Math.min(at + 1, found.length - 1));
          else if (event.key === "ArrowUp") setChosen((at) => Math.max(at - 1, 0));
          else if (event.key === "Enter") run(found[chosen]);
          else return;
          event.preventDefault();
        }}
      />
      <ul id="palette-list" role="listbox" aria-label="Found">
        {found.map((action, index) => (
          <li
            key={action.title + action.hint}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === chosen}
            onPointerEnter={() => setChosen(index)}
            onClick={() => run(action)}
          >
            <span>{action.title}</span>
            <span class="faint">{action.hint}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 ? <p class="faint none">Nothing of that name</p> : null}
    </dialog>
  );
}
