/** Colours of terminals in text, as pieces of text with classes: never as markup. */

export type Piece = { text: string; classes: string };

const ESCAPE = /\u001b\[([0-9;]*)m|\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g;

export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let color = "";
  let bold = false;
  let at = 0;
  const add = (part: string) => {
    if (part !== "") found.push({ text: part, classes: [color, bold ? "ansi-bold" : ""].filter(Boolean).join(" ") });
  };
  for (const match of text.matchAll(ESCAPE)) {
    add(text.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[1] === undefined) continue;
    const codes = match[1].split(";").map(Number);
    for (let index = 0; index < codes.length; index += 1) {
      const code = codes[index]!;
      if (code === 0) {
        color = "";
        bold = false;
      } else if (code === 1) bold = true;
      else if (code === 22) bold = false;
      else if (code === 39) color = "";
      else if (code >= 30 && code <= 37) color = `ansi-${code - 30}`;
      else if (code >= 90 && code <= 97) color = `ansi-${code - 90}`;
      // Others than the sixteen are not told apart here; what follows belongs to them.
      else if (code === 38 || code === 48) index += codes[index + 1] === 5 ? 2 : 4;
    }
  }
  add(text.slice(at));
  return found;
}

const BACK = /[^\u0008]\u0008/;

/** What a terminal would show: `\r` and `\b` go back. */
export function overwritten(text: string): string {
  if (!text.includes("\r") && !text.includes("\u0008")) return text;
  return text
    .replace(/\r+\n/g, "\n")
    .split("\n")
    .map((line) => {
      const last = line.replace(/\r$/, "");
      let shown = last.includes("\r") ? last.slice(last.lastIndexOf("\r") + 1) : last;
      while (BACK.test(shown)) shown = shown.replace(BACK, "");
      return shown;
    })
    .join("\n");
}
