/** What a page believes of its output frames: a number, within bounds, and not too often. */

export const TALLEST = 600;
const TALLEST_WHOLE = 20_000;
/** Messages of a frame that are looked at, each second. */
export const MOST_MESSAGES = 30;

/** The height that a frame gets for what it said; nothing for what is no height. */
export function heightOf(said: unknown, whole: boolean): { height: number; isCut: boolean } | undefined {
  if (typeof said !== "object" || said === null) return undefined;
  const asked = (said as { height?: unknown }).height;
  if (typeof asked !== "number" || !Number.isFinite(asked) || asked < 0) return undefined;
  const most = whole ? TALLEST_WHOLE : TALLEST;
  return { height: Math.max(20, Math.min(Math.ceil(asked), most)), isCut: asked > most };
}

/** Counts messages, and says which are too many. */
export class Patience {
  private second = 0;
  private seen = 0;

  takes(now: number): boolean {
    const second = Math.floor(now / 1000);
    if (second !== this.second) {
      this.second = second;
      this.seen = 0;
    }
    this.seen += 1;
    return this.seen <= MOST_MESSAGES;
  }
}
