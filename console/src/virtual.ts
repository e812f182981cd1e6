/** Which rows of a long list are in sight. */

export type Range = { first: number; last: number };

/** The rows to draw of a list that is scrolled: those in sight, and some beyond. */
export function inSight(scrolled: number, height: number, row: number, rows: number, beyond = 8): Range {
  const first = Math.max(0, Math.floor(scrolled / row) - beyond);
  const last = Math.min(rows, Math.ceil((scrolled + height) / row) + beyond);
  return { first: Math.min(first, rows), last };
}
