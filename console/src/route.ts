/** Places in the console, as the fragment of the address names them. */
import { signal } from "@preact/signals";

export type Place = { page: string; id?: string; tab?: string };

/** Reads a fragment. */
export function parse(fragment: string): Place {
  const [page = "", id, tab] = fragment.replace(/^#\/?/, "").split("?")[0]!.split("/").map(decoded);
  const place: Place = { page: page === "" ? "sandboxes" : page };
  if (id) place.id = id;
  if (tab) place.tab = tab;
  return place;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The ticket that a link carries, if it carries one. */
export function ticketOf(fragment: string): string | undefined {
  return /^#ticket=([A-Za-z0-9_-]{43})$/.exec(fragment)?.[1];
}

export function href(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export const place = signal<Place>({ page: "sandboxes" });

export function go(...parts: string[]): void {
  location.hash = href(...parts);
}

export function followAddress(): void {
  const read = () => {
    place.value = parse(location.hash);
  };
  addEventListener("hashchange", read);
  read();
}
