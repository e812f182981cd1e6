'use strict';

const NOT_LINE_END = /[^\r\n\u2028\u2029]/g;

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

  /** The text with all changes. */
  applied() {
    const changes = this.#changes.sort((a, b) => a.start - b.start || a.end - b.end || a.order - b.order);
    let result = '';
    let position = 0;
    for (const { start, end, replacement } of changes) {
      result += this.#text.slice(position, start) + replacement;
      position = Math.max(position, end);
    }
    return result + this.#text.slice(position);
  }
}

module.exports = { Edits };
