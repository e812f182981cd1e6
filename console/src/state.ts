/** What all pages share: the look, the clock, and short messages. */
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

function stored<T extends string>(name: string, usual: T): T {
  return (localStorage.getItem(name) as T | null) ?? usual;
}

export const theme = signal<Theme>(stored("skep.theme", "system"));
export const utc = signal(stored<"local" | "utc">("skep.time", "local") === "utc");
/** The present, to the second, for what counts down. */
export const now = signal(Date.now());

export function isDark(): boolean {
  return theme.value === "dark" || (theme.value === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
}

export function keepLooks(): void {
  effect(() => {
    localStorage.setItem("skep.theme", theme.value);
    document.documentElement.dataset.theme = theme.value;
  });
  effect(() => localStorage.setItem("skep.time", utc.value ? "utc" : "local"));
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1000);
}

export type Toast = { id: number; text: string; kind: "note" | "error"; undo?: () => void };

export const toasts = signal<Toast[]>([]);
let lastToast = 0;

export function toast(text: string, kind: Toast["kind"] = "note", stays = 5000, undo?: () => void): number {
  const id = ++lastToast;
  toasts.value = [...toasts.value.slice(-4), undo ? { id, text, kind, undo } : { id, text, kind }];
  setTimeout(() => dismiss(id), stays);
  return id;
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

/** Something the palette offers. */
export type Action = { title: string; hint?: string; run: () => void };

/** Actions of the page that is shown. */
export const pageActions = signal<Action[]>([]);
