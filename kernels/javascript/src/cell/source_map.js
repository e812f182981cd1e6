'use strict';

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** Where what a compiler wrote came from. */
class SourceMap {
  // For each line written: [column, original line, original column], in order; all from zero.
  #lines;

  /** @param {string} mappings of a version 3 source map with one source */
  constructor(mappings) {
    let line = 0;
    let column = 0;
    this.#lines = mappings.split(';').map((segments) => {
      let written = 0;
      return segments.split(',').filter(Boolean).map((segment) => {
        const [columns, , lines, originalColumns] = decoded(segment);
        written += columns;
        line += lines ?? 0;
        column += originalColumns ?? 0;
        return [written, line, column];
      });
    });
  }

  /** The original of a place, both counted from one; the place itself if nothing is known. */
  original(line, column) {
    const before = (this.#lines[line - 1] ?? []).filter(([written]) => written < column);
    const nearest = before.at(-1) ?? this.#lines[line - 1]?.[0];
    return nearest === undefined ? [line, column] : [nearest[1] + 1, nearest[2] + 1];
  }
}

/** The numbers of one segment: base 64, five bits each, least significant first, sign last. */
function decoded(segment) {
  const numbers = [];
  let value = 0;
  let shift = 0;
  for (const character of segment) {
    const digit = DIGITS.indexOf(character);
    value |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    numbers.push(value & 1 ? -(value >> 1) : value >> 1);
    value = 0;
    shift = 0;
  }
  return numbers;
}

module.exports = { SourceMap };
