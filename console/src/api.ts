/** The API, as the one who opened this page. The key is in this tab alone. */
import { signal } from "@preact/signals";
import { ticketOf } from "./route";

const KEY = "skep.key";
const AGENT_PORT = 49983;
const INTERPRETER_PORT = 49999;

/** What the server said when it refused. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export type Team = { teamID: string; name: string };

/** The team of this tab, once it is let in. */
export const team = signal<Team | undefined>(undefined);
/** Why nobody is let in, if somebody tried. */
export const refusal = signal<string | undefined>(undefined);
/** False while requests do not reach the server. */
export const reachable = signal(true);

let key: string | undefined;

export function hasKey(): boolean {
  return key !== undefined;
}

export function socketProtocols(): string[] {
  return key === undefined ? ["skep.v1"] : ["skep.v1", `skep.key.${key}`];
}

/** Lets this tab in by the ticket of a link, by the key that it has, or without any where none is asked for. */
export async function begin(): Promise<void> {
  const ticket = ticketOf(location.hash);
  if (ticket !== undefined) {
    // Before anything else: the address is shown, copied and remembered.
    history.replaceState(null, "", `${location.pathname}#/`);
    try {
      const session = await call<{ apiKey: string }>("POST", "/skep/console/sessions", { ticket });
      keep(session.apiKey);
    } catch (error) {
      refusal.value = messageOf(error);
    }
  }
  key ??= sessionStorage.getItem(KEY) ?? undefined;
  await enter();
}

/** Lets this tab in by a key. */
export async function enterWith(text: string): Promise<void> {
  refusal.value = undefined;
  key = text;
  await enter();
  if (team.value !== undefined) keep(text);
  else refusal.value ??= "no team has this key";
}

async function enter(): Promise<void> {
  try {
    const teams = await call<Team[]>("GET", "/teams");
    team.value = teams[0];
  } catch (error) {
    if (key !== undefined) refusal.value = messageOf(error);
    forget();
  }
}

function keep(text: string): void {
  key = text;
  sessionStorage.setItem(KEY, text);
}

export function forget(): void {
  key = undefined;
  team.value = undefined;
  sessionStorage.removeItem(KEY);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function fetched(url: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(url, { ...init, credentials: "omit", cache: "no-store" });
    reachable.value = true;
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    reachable.value = false;
    throw new ApiError(0, "unreachable", "the server does not answer");
  }
}

async function checked(response: Response): Promise<Response> {
  if (response.ok) return response;
  const text = await response.text();
  let code = "";
  let message = text || response.statusText;
  try {
    const body = JSON.parse(text) as { error_code?: string; code?: string; message?: string; detail?: unknown };
    code = body.error_code ?? String(body.code ?? "");
    message = body.message ?? (typeof body.detail === "string" ? body.detail : message);
  } catch {
    // Not of the API; its text says what there is to say.
  }
  if (response.status === 401 && code === "unauthorized" && key !== undefined) {
    refusal.value = "the key of this tab does not work any more; `skep console` prints another link";
    forget();
  }
  throw new ApiError(response.status, code, message);
}

export async function request(method: string, path: string, body?: unknown): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (key !== undefined) headers["X-API-Key"] = key;
  // A server without keys takes nothing else, and a body that is not there has no type.
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetched(path, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
  return checked(response);
}

export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await request(method, path, body);
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

/** All items of a list that comes in pages, up to a number of them. */
export async function pages<T>(path: string, most: number): Promise<T[]> {
  const items: T[] = [];
  let token: string | null = null;
  do {
    const next: string = token === null ? "" : `&nextToken=${encodeURIComponent(token)}`;
    const response = await request("GET", `${path}${path.includes("?") ? "&" : "?"}limit=100${next}`);
    items.push(...((await response.json()) as T[]));
    token = response.headers.get("x-next-token");
  } while (token && items.length < most);
  return items;
}

/** One sandbox's agent and interpreter, reached by headers through the server. */
export class Sandbox {
  private token: Promise<string | undefined> | undefined;

  constructor(readonly id: string) {}

  private accessToken(): Promise<string | undefined> {
    // It is read and not asked for by `connect`, which would move the deadline.
    this.token ??= call<{ envdAccessToken?: string }>("GET", `/sandboxes/${this.id}`).then((detail) => detail.envdAccessToken);
    this.token.catch(() => {
      this.token = undefined;
    });
    return this.token;
  }

  async to(port: number, method: string, path: string, init: RequestInit = {}): Promise<Response> {
    const token = await this.accessToken();
    const headers = new Headers(init.headers);
    headers.set("E2b-Sandbox-Id", this.id);
    headers.set("E2b-Sandbox-Port", String(port));
    if (token !== undefined) headers.set("X-Access-Token", token);
    return checked(await fetched(path, { ...init, method, headers }));
  }

  agent(method: string, path: string, init?: RequestInit): Promise<Response> {
    return this.to(AGENT_PORT, method, path, init);
  }

  /** One of the agent's remote procedures, in the JSON form of Connect. */
  async procedure<T>(name: string, message: unknown, user = "user"): Promise<T> {
    const response = await this.agent("POST", `/${name}`, {
      headers: { "Content-Type": "application/json", "Connect-Protocol-Version": "1", Authorization: `Basic ${btoa(`${user}:`)}` },
      body: JSON.stringify(message),
    });
    return (await response.json()) as T;
  }

  /** Writes a file, and tells how much of it is there. */
  async upload(path: string, content: Blob, progress: (part: number) => void, user = "user"): Promise<void> {
    const token = await this.accessToken();
    const form = new FormData();
    form.append("file", content, path.split("/").at(-1) ?? "file");
    await new Promise<void>((resolve, reject) => {
      // `fetch` does not tell how far an upload is.
      const upload = new XMLHttpRequest();
      upload.open("POST", `/files?path=${encodeURIComponent(path)}&username=${encodeURIComponent(user)}`);
      upload.setRequestHeader("E2b-Sandbox-Id", this.id);
      upload.setRequestHeader("E2b-Sandbox-Port", String(AGENT_PORT));
      if (token !== undefined) upload.setRequestHeader("X-Access-Token", token);
      upload.upload.onprogress = (event) => progress(event.loaded / Math.max(1, event.total));
      upload.onload = () => {
        if (upload.status < 300) resolve();
        else checked(new Response(upload.responseText, { status: upload.status })).then(() => resolve(), reject);
      };
      upload.onerror = () => reject(new ApiError(0, "unreachable", "the connection broke"));
      upload.send(form);
    });
  }

  async interpreter<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await this.stream(method, path, body);
    const text = await response.text();
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  stream(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
    const init: RequestInit = {};
    if (body !== undefined) {
      init.headers = { "Content-Type": "application/json" };
      init.body = JSON.stringify(body);
    }
    if (signal) init.signal = signal;
    return this.to(INTERPRETER_PORT, method, path, init);
  }
}

const known = new Map<string, Sandbox>();

/** The sandbox of an id, whose token is asked for once. */
export function sandbox(id: string): Sandbox {
  let found = known.get(id);
  if (found === undefined) {
    found = new Sandbox(id);
    known.set(id, found);
  }
  return found;
}
