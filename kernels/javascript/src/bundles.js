'use strict';

// What a value looks like: MIME types and their contents.

const { types } = require('node:util');

const { show } = require('./errors');

/** The method by which objects describe themselves to notebooks, as in Deno. */
const DISPLAY = Symbol.for('Jupyter.display');

/** Methods by which objects do so in ijavascript. */
const METHODS = [
  ['_toHtml', 'text/html'],
  ['_toSvg', 'image/svg+xml'],
  ['_toPng', 'image/png'],
  ['_toJpeg', 'image/jpeg'],
];

/** What binary data begins with. */
const SIGNATURES = [
  [Buffer.from('89504e470d0a1a0a', 'hex'), 'image/png'],
  [Buffer.from('ffd8ff', 'hex'), 'image/jpeg'],
  [Buffer.from('GIF8'), 'image/gif'],
  [Buffer.from('%PDF-'), 'application/pdf'],
];

/** The representations of a value; a promise of them if the value makes them so. */
function bundleOf(value) {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  if (!isObject) return { 'text/plain': show(value) };
  if (typeof value[DISPLAY] === 'function') return whenWhole(value[DISPLAY]());
  const bundle = { 'text/plain': show(value) };
  for (const [method, mime] of METHODS) {
    if (typeof value[method] === 'function') bundle[mime] = value[method]();
  }
  if (typeof value._toMime === 'function') Object.assign(bundle, value._toMime());
  const mime = types.isUint8Array(value) && signatureOf(value);
  if (mime) bundle[mime] = value;
  if (isPlain(value)) bundle['application/json'] = jsonOf(value, new Set());
  return whenWhole(bundle);
}

function whenWhole(bundle) {
  if (types.isPromise(bundle)) return bundle.then(whenWhole);
  if (!Object.values(bundle).some(types.isPromise)) return normalised(bundle);
  const entries = Object.entries(bundle).map(async ([mime, content]) => [mime, await content]);
  return Promise.all(entries).then((whole) => normalised(Object.fromEntries(whole)));
}

/** A bundle as the protocol has it: binary data as base64, text as text. */
function normalised(bundle) {
  const entries = Object.entries(bundle).filter(([, content]) => content !== undefined);
  return Object.fromEntries(entries.map(([mime, content]) => [mime, contentOf(mime, content)]));
}

function contentOf(mime, content) {
  if (types.isUint8Array(content)) {
    const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
    return bytes.toString(/^text\/|[+/](xml|javascript)$/.test(mime) ? 'utf8' : 'base64');
  }
  if (typeof content === 'string' || /[+/]json$|^e2b\//.test(mime)) return content;
  return String(content);
}

function signatureOf(bytes) {
  const found = SIGNATURES.find(([signature]) => signature.equals(bytes.subarray(0, signature.length)));
  return found?.[1];
}

function isPlain(value) {
  if (types.isProxy(value)) return false;
  if (Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** A list or an object as JSON says it; undefined if JSON cannot, or if user code would have to run for it. */
function jsonOf(value, around) {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      return Number.isFinite(value) ? value : null;
    case 'object':
      break;
    default:
      return undefined;
  }
  if (value === null) return null;
  if (!isPlain(value) || around.has(value)) return undefined;
  around.add(value);
  const copy = Array.isArray(value) ? listOf(value, around) : objectOf(value, around);
  around.delete(value);
  return copy;
}

function listOf(list, around) {
  const copy = [];
  for (let index = 0; index < list.length; index++) {
    const property = Object.getOwnPropertyDescriptor(list, index);
    const item = property && 'value' in property ? jsonOf(property.value, around) : undefined;
    if (item === undefined) return undefined;
    copy.push(item);
  }
  return copy;
}

function objectOf(object, around) {
  const copy = Object.create(null);
  for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(object))) {
    if (!property.enumerable) continue;
    const item = 'value' in property ? jsonOf(property.value, around) : undefined;
    if (item === undefined) return undefined;
    copy[name] = item;
  }
  return copy;
}

module.exports = { bundleOf, normalised };
