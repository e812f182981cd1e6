/** Sockets of the server. */

/** The word with which a socket of events begins. */
export type Waiting = { type: "ready" };

export function socketUrl(path: string): string {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

const INPUT = 0;
const SIZE = 1;
const END = 2;

/** What the terminal of a sandbox says. */
export type TerminalSaid =
  | { kind: "output"; bytes: Uint8Array }
  | { kind: "process"; pid: number }
  | { kind: "exit"; code: number }
  | { kind: "over"; why: string };

export function inputMessage(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const message = new Uint8Array(1 + bytes.length);
  message[0] = INPUT;
  message.set(bytes, 1);
  return message;
}

export function sizeMessage(cols: number, rows: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array([SIZE, cols >> 8, cols & 255, rows >> 8, rows & 255]);
}

export function endMessage(): Uint8Array<ArrayBuffer> {
  return new Uint8Array([END]);
}

export function understood(data: ArrayBuffer): TerminalSaid | undefined {
  const bytes = new Uint8Array(data);
  const rest = bytes.subarray(1);
  const view = new DataView(data, 1);
  switch (bytes[0]) {
    case 0:
      return { kind: "output", bytes: rest };
    case 1:
      return rest.length === 4 ? { kind: "process", pid: view.getUint32(0) } : undefined;
    case 2:
      return rest.length === 4 ? { kind: "exit", code: view.getInt32(0) } : undefined;
    case 3:
      return { kind: "over", why: new TextDecoder().decode(rest) };
    default:
      return undefined;
  }
}
