/** Terminals of a sandbox, beside each other. They survive a reload of the page. */
import { useEffect, useRef, useState } from "preact/hooks";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { socketProtocols } from "../api";
import type { TabProps } from "../pages/sandbox";
import { endMessage, inputMessage, sizeMessage, socketUrl, understood } from "../socket";
import { isDark, theme } from "../state";
import { openHere } from "./terminal-request";

type Kept = { number: number; user: string; cwd?: string; pid?: number };

const stored = (id: string) => `skep.terminals.${id}`;




function readKept(id: string): Kept[] {
  try {
    return JSON.parse(sessionStorage.getItem(stored(id)) ?? "[]") as Kept[];
  } catch {
    return [];
  }
}

export function Terminals({ record }: TabProps) {
  const id = record.sandboxID;
  const [kept, setKept] = useState<Kept[]>(() => {
    const found = readKept(id);
    const cwd = openHere.cwd;
    openHere.cwd = undefined;
    if (cwd !== undefined) return [...found, { number: next(found), user: "user", cwd }];
    return found.length > 0 ? found : [{ number: 1, user: "user" }];
  });
  const [shown, setShown] = useState(kept.at(-1)?.number ?? 1);
  const [user, setUser] = useState("user");
  useEffect(() => sessionStorage.setItem(stored(id), JSON.stringify(kept)), [kept]);
  const add = () => {
    const number = next(kept);
    setKept([...kept, { number, user }]);
    setShown(number);
  };
  const remove = (number: number) => {
    const rest = kept.filter((one) => one.number !== number);
    setKept(rest);
    if (shown === number) setShown(rest.at(-1)?.number ?? 0);
  };
  return (
    <>
      <div class="bar subtabs">
        <div class="subtabs-list" role="tablist" aria-label="Terminals">
        {kept.map((one) => (
          <button key={one.number} type="button" role="tab" aria-selected={one.number === shown} class="subtab" onClick={() => setShown(one.number)}>
            {one.user === "user" ? "" : `${one.user} `}
            {one.number}
          </button>
        ))}
        </div>
        <button type="button" class="small" onClick={add}>
          New terminal
        </button>
        <select aria-label="User of new terminals" value={user} onChange={(event) => setUser(event.currentTarget.value)}>
          <option value="user">as user</option>
          <option value="root">as root</option>
        </select>
      </div>
      {kept.length === 0 ? <p class="faint">No terminal is open.</p> : null}
      {kept.map((one) => (
        <One
          key={one.number}
          id={id}
          kept={one}
          isShown={one.number === shown}
          started={(pid) => setKept((all) => all.map((other) => (other.number === one.number ? { ...other, pid } : other)))}
          close={() => remove(one.number)}
        />
      ))}
    </>
  );
}

function next(kept: Kept[]): number {
  return Math.max(0, ...kept.map((one) => one.number)) + 1;
}

const DARK = { background: "#14161a", foreground: "#d7dae0", cursor: "#e0a458", selectionBackground: "#3b4252" };
const LIGHT = { background: "#fbfaf8", foreground: "#24272d", cursor: "#9a5b00", selectionBackground: "#d9d4c8" };

function One({ id, kept, isShown, started, close }: { id: string; kept: Kept; isShown: boolean; started: (pid: number | undefined) => void; close: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  const screen = useRef<{ terminal: Terminal; fit: FitAddon; socket?: WebSocket } | undefined>(undefined);
  const [over, setOver] = useState<string | undefined>();
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const terminal = new Terminal({ fontFamily: "ui-monospace, 'DejaVu Sans Mono', monospace", fontSize: 13, cursorBlink: true, scrollback: 5000, theme: isDark() ? DARK : LIGHT, screenReaderMode: true });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(box.current!);
    fit.fit();
    const own: { terminal: Terminal; fit: FitAddon; socket?: WebSocket } = { terminal, fit };
    screen.current = own;
    const encoder = new TextEncoder();
    terminal.onData((text) => {
      if (own.socket?.readyState === WebSocket.OPEN) own.socket.send(inputMessage(encoder.encode(text)));
    });
    terminal.onResize(({ cols, rows }) => {
      if (own.socket?.readyState === WebSocket.OPEN) own.socket.send(sizeMessage(cols, rows));
    });
    const observer = new ResizeObserver(() => {
      if (box.current?.offsetParent) fit.fit();
    });
    observer.observe(box.current!);
    return () => {
      observer.disconnect();
      own.socket?.close();
      terminal.dispose();
    };
  }, []);
  useEffect(() => {
    const own = screen.current!;
    const { terminal } = own;
    const query = new URLSearchParams({ cols: String(terminal.cols), rows: String(terminal.rows), user: kept.user });
    if (kept.cwd !== undefined) query.set("cwd", kept.cwd);
    const found = kept.pid;
    if (found !== undefined) query.set("pid", String(found));
    const socket = new WebSocket(socketUrl(`/skep/console/sandboxes/${id}/terminal?${query}`), socketProtocols());
    socket.binaryType = "arraybuffer";
    own.socket = socket;
    let ended = false;
    socket.onmessage = (message: MessageEvent<ArrayBuffer>) => {
      const said = understood(message.data);
      if (said?.kind === "output") terminal.write(said.bytes);
      else if (said?.kind === "process") {
        started(said.pid);
        // Programs draw their screen again when its size changes.
        if (found !== undefined) {
          socket.send(sizeMessage(Math.max(2, terminal.cols - 1), terminal.rows));
          socket.send(sizeMessage(terminal.cols, terminal.rows));
        }
      } else if (said?.kind === "exit") {
        ended = true;
        started(undefined);
        setOver(`The program has ended with ${said.code}.`);
      } else if (said?.kind === "over") {
        ended = true;
        started(undefined);
        setOver(said.why);
      }
    };
    socket.onclose = () => {
      if (!ended) setOver("The connection is lost.");
    };
    setOver(undefined);
    return () => {
      socket.onclose = null;
      socket.close();
    };
  }, [turn]);
  useEffect(() => {
    if (isShown) {
      screen.current?.fit.fit();
      screen.current?.terminal.focus();
    }
  }, [isShown]);
  useEffect(() => {
    if (screen.current) screen.current.terminal.options.theme = isDark() ? DARK : LIGHT;
  }, [theme.value]);
  return (
    <div class="terminal" hidden={!isShown}>
      {over === undefined ? null : (
        <p class="notice">
          {over}{" "}
          <button type="button" class="small" onClick={() => setTurn(turn + 1)}>
            {kept.pid === undefined ? "Start anew" : "Connect again"}
          </button>
        </p>
      )}
      <div class="screen" ref={box} />
      <div class="terminal-end">
        <span class="faint">{kept.pid === undefined ? "" : `process ${kept.pid}`} It goes on when this page is left.</span>
        <button
          type="button"
          class="small quiet danger"
          onClick={() => {
            const socket = screen.current?.socket;
            if (socket?.readyState === WebSocket.OPEN) socket.send(endMessage());
            close();
          }}
        >
          End this terminal
        </button>
      </div>
    </div>
  );
}
