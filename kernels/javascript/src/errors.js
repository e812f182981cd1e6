'use strict';

// What the peer is told of something thrown.

const path = require('node:path');
const { inspect, types } = require('node:util');

const KERNEL_FOLDER = path.dirname(__dirname) + path.sep;
const FRAME = /^\s+at /;
const NODE_FRAME = /^\s+at .*\bnode:/;
const CELL_PLACE = /(cell-\d+\.[jt]s):(\d+):(\d+)/g;

/** Whether it is an error and not something else that was thrown. */
function isError(thrown) {
  return types.isNativeError(thrown) || thrown instanceof Error;
}

/** Text that survives whatever user code does to its own objects. */
function safely(describe, otherwise) {
  try {
    return String(describe());
  } catch {
    return otherwise;
  }
}

/** Shows any value; one that refuses to be shown is named. */
function show(value) {
  return safely(() => inspect(value, { maxStringLength: null }), '[an object that cannot be shown]');
}

/**
 * Describes something thrown.
 *
 * @param {Map<string, {original(line: number, column: number): [number, number]}>} maps of cells in which places have moved
 */
function describe(thrown, maps) {
  if (!isError(thrown)) {
    const type = thrown === null ? 'null' : typeof thrown;
    return { kind: 'runtime', name: type, value: show(thrown), traceback: [] };
  }
  return {
    kind: 'runtime',
    name: safely(() => thrown.name, 'Error') || 'Error',
    value: safely(() => thrown.message, ''),
    traceback: [clean(show(thrown), maps)],
  };
}

/** A stack without the kernel's own frames, and with places in what the user wrote. */
function clean(text, maps) {
  const lines = text.split('\n');
  const others = without(lines, (line) => FRAME.test(line) && line.includes(KERNEL_FOLDER));
  const shown = without(others, (line, index) => NODE_FRAME.test(line) && !isFollowedByFrames(others, index));
  return shown.join('\n').replace(CELL_PLACE, (place, file, line, column) => {
    const map = maps.get(file);
    return map === undefined ? place : `${file}:${map.original(Number(line), Number(column)).join(':')}`;
  });
}

/** The other lines; the brace that opens an error's properties stands behind its last frame, whichever that is. */
function without(lines, isUnwanted) {
  const kept = [];
  lines.forEach((line, index) => {
    if (!isUnwanted(line, index)) kept.push(line);
    else if (line.endsWith(' {') && kept.length > 0) kept[kept.length - 1] += ' {';
  });
  return kept;
}

/** Whether frames of something else than Node.js follow in the same stack. */
function isFollowedByFrames(lines, index) {
  for (let next = index + 1; next < lines.length && FRAME.test(lines[next]); next++) {
    if (!NODE_FRAME.test(lines[next])) return true;
  }
  return false;
}

module.exports = { clean, describe, isError, show };
