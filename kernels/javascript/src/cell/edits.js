'use strict';

const NOT_LINE_END = /[^\r\n\u2028\u2029]/g;
const LINE_END = /\r\n|[\n\r\u2028\u2029]/;

/** Changes to a text that keep its lines where they are. */
class Edits {
  #text;
  #changes = [];

  constructor(text) {
    this.#text = text;
  }

  replace(start, end, replacement) {
    this.#changes.push({ start, end, replacement, order: this.#changes.length });
  }

  insert(position, text) {
    this.replace(position, position, text);
  }

  /** Replaces something by as many columns. */
  overwrite(start, end, replacement) {
    this.replace(start, end, replacement.padEnd(end - start));
  }

  /** Leaves nothing but the line ends, behind an optional beginning. */
  blank(start, end, beginning = '') {
    const rest = this.#text.slice(start, end).replace(NOT_LINE_END, ' ');
    this.replace(start, end, beginning + rest.slice(beginning.length));
  }

  /**
   * The text with all changes.
   *
   * @returns {{text: string, columns: Columns|null}} null if no column has moved
   */
  applied() {
    const changes = this.#changes.sort((a, b) => a.start - b.start || a.end - b.end || a.order - b.order);
    const columns = new Columns();
    let text = '';
    let position = 0;
    const keep = (end) => {
      const kept = this.#text.slice(position, end);
      columns.advance(kept, kept);
      text += kept;
      position = Math.max(position, end);
    };
    for (const { start, end, replacement } of changes) {
      keep(start);
      columns.replace(replacement, this.#text.slice(start, end));
      text += replacement;
      position = Math.max(position, end);
    }
    keep(this.#text.length);
    return { text, columns: columns.haveMoved ? columns : null };
  }
}

/** Where the columns of a changed text came from. */
class Columns {
  #line = 1;
  #written = 1;
  #original = 1;
  // By line: from which column on what comes from where; a fixed part was not there before.
  #points = new Map();
  haveMoved = false;

  /** Both texts go on by this much; they have the same line ends. */
  advance(written, original) {
    const lines = written.split(LINE_END);
    this.#line += lines.length - 1;
    const begins = lines.length > 1;
    this.#written = (begins ? 1 : this.#written) + lines.at(-1).length;
    this.#original = (begins ? 1 : this.#original) + original.split(LINE_END).at(-1).length;
  }

  replace(written, original) {
    if (written.length === original.length) {
      this.advance(written, original);
      return;
    }
    this.haveMoved = true;
    this.#note(true);
    this.advance(written, original);
    this.#note(false);
  }

  #note(isFixed) {
    if (!this.#points.has(this.#line)) this.#points.set(this.#line, []);
    this.#points.get(this.#line).push({ written: this.#written, original: this.#original, isFixed });
  }

  /** The original of a place, both counted from one. */
  original(line, column) {
    const point = (this.#points.get(line) ?? []).findLast(({ written }) => written <= column);
    if (point === undefined) return [line, column];
    return [line, point.isFixed ? point.original : point.original + column - point.written];
  }
}

module.exports = { Edits };
