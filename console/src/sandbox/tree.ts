/** Snapshots as a tree, by what each was made after. */

export type Node<T> = { item: T; depth: number };

export function tree<T>(items: T[], idOf: (item: T) => string, parentOf: (item: T) => string | undefined): Node<T>[] {
  const known = new Set(items.map(idOf));
  const children = new Map<string | undefined, T[]>();
  for (const item of items) {
    const parent = parentOf(item);
    // One whose parent was forgotten begins a tree of its own.
    const key = parent !== undefined && known.has(parent) ? parent : undefined;
    children.set(key, [...(children.get(key) ?? []), item]);
  }
  const nodes: Node<T>[] = [];
  const visit = (key: string | undefined, depth: number) => {
    for (const item of children.get(key) ?? []) {
      nodes.push({ item, depth });
      visit(idOf(item), depth + 1);
    }
  };
  visit(undefined, 0);
  return nodes;
}
