'use strict';

// JSON as the peer wants it: ASCII, and no half of a surrogate pair.

const NOT_ASCII = /[\u007f-\uffff]/;
const EVERY_NOT_ASCII = /[\u007f-\uffff]/g;
const HALF_PAIR = /\\ud[89a-f]/;

function escaped(character) {
  return '\\u' + character.charCodeAt(0).toString(16).padStart(4, '0');
}

/** The JSON text with everything outside of ASCII escaped. */
function ascii(json) {
  return NOT_ASCII.test(json) ? json.replace(EVERY_NOT_ASCII, escaped) : json;
}

/** A string as JSON. */
function quote(text) {
  return ascii(JSON.stringify(text.isWellFormed() ? text : text.toWellFormed()));
}

/** Any value that JSON can say, as JSON. */
function toJson(value) {
  const json = JSON.stringify(value);
  // JSON.stringify writes a half of a pair as an escape, which strict readers refuse.
  if (!HALF_PAIR.test(json)) return ascii(json);
  return ascii(JSON.stringify(value, (_, part) => (typeof part === 'string' ? part.toWellFormed() : part)));
}

/** Characters in one stream message; readers need time quadratic in the length of a line. */
const LARGEST_TEXT = 65536;

/** The text in pieces that fit into a message; no pair of surrogates is cut in two. */
function* pieces(text) {
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + LARGEST_TEXT, text.length);
    const cutsPair = end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800;
    if (cutsPair) end -= 1;
    yield text.slice(start, end);
    start = end;
  }
}

module.exports = { quote, toJson, pieces };
