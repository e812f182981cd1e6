'use strict';

const LINE_END = /\r\n|[\n\r\u2028\u2029]/;

/** A cell that cannot be read. */
class CellSyntaxError extends SyntaxError {
  /** @param {number} line from one; @param {number} column from zero */
  constructor(message, line, column) {
    super(message);
    this.line = line;
    this.column = column;
  }

  /** From what acorn throws, which ends its messages with the place. */
  static fromAcorn(error) {
    const { line, column } = error.loc;
    return new CellSyntaxError(error.message.replace(/ \(\d+:\d+\)$/, ''), line, column);
  }

  /** From what V8 throws, whose stack begins with the place. */
  static fromEngine(error, file) {
    const [place, , marker = ''] = String(error.stack).split('\n');
    const line = Number(place.slice(file.length + 1)) || 1;
    return new CellSyntaxError(error.message, line, Math.max(marker.indexOf('^'), 0));
  }

  /** What is shown: the message with its place, and the line it is about. */
  describe(code, file) {
    const value = `${this.message} (${this.line}:${this.column + 1})`;
    const text = code.split(LINE_END)[this.line - 1] ?? '';
    const place = `${file}:${this.line}:${this.column + 1}`;
    const frame = `${place}\n${text}\n${' '.repeat(this.column)}^\n\nSyntaxError: ${this.message}`;
    return { kind: 'syntax', name: 'SyntaxError', value, traceback: [frame] };
  }
}

module.exports = { CellSyntaxError };
