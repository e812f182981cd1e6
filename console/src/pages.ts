/** The pages, in the order of the side bar. All but the first are loaded when they are gone to. */
import type { ComponentType } from "preact";
import { Sandboxes } from "./pages/sandboxes";

export type PageComponent = ComponentType<{ id?: string; tab?: string }>;
type Page = { name: string; title: string; group: string; load: () => Promise<PageComponent> };

export const ready = async (): Promise<PageComponent> => Sandboxes;

export const PAGES: Page[] = [
  { name: "sandboxes", title: "Sandboxes", group: "Work", load: ready },
  { name: "templates", title: "Templates", group: "Work", load: async () => (await import("./pages/templates")).Templates },
  { name: "volumes", title: "Volumes", group: "Work", load: async () => (await import("./pages/volumes")).Volumes },
  { name: "secrets", title: "Secrets", group: "Work", load: async () => (await import("./pages/secrets")).Secrets },
  { name: "events", title: "Events", group: "Team", load: async () => (await import("./pages/events")).Events },
  { name: "keys", title: "Keys", group: "Team", load: async () => (await import("./pages/keys")).Keys },
  { name: "team", title: "Team", group: "Team", load: async () => (await import("./pages/team")).Team },
  { name: "server", title: "Server", group: "Team", load: async () => (await import("./pages/server")).Server },
];

export const SANDBOX: Page["load"] = async () => (await import("./pages/sandbox")).SandboxPage;
