'use strict';

// Questions about code that is not run: what may follow it, what a name in it is, whether it is whole.
//
// No code of the user's runs to answer one: getters are not called and proxies not asked, so that a prompt that
// completes while somebody types changes nothing.

const { types, inspect: show } = require('node:util');

const acorn = require('acorn');

const { parse } = require('./cell/rewrite');
const typescriptCompiler = require('./cell/typescript_compiler');
const { dependencies, version } = require('../package.json');

/** A person looks at a screenful; an object may have tens of thousands of names. */
const MOST_MATCHES = 1000;

/** What completes without anything before it, besides the names that there are. */
const KEYWORDS = (
  'async await break case catch class const continue debugger default delete do else export extends false finally for ' +
  'function if import in instanceof let new null return static super switch this throw true try typeof undefined var void ' +
  'while with yield'
).split(' ');
const TYPE_KEYWORDS = 'abstract as declare enum implements interface keyof namespace private protected public readonly satisfies type'.split(' ');

/** Names with dots between, up to the cursor. */
const PATH = /(?:[\p{ID_Start}$_][\p{ID_Continue}$]*\??\.)*(?:[\p{ID_Start}$_][\p{ID_Continue}$]*)?$/u;
/** More of it is not looked at. */
const LONGEST_PATH = 4096;
/** The end of an expression and a dot; three dots are something else. */
const MEMBER_OF = /(?<!\.\.)\.\s*$/;
const NAME_AFTER = /^[\p{ID_Continue}$]*/u;
const NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/** What could stand between `cursor_start` and `cursor_end` instead. */
function complete(kernel, request) {
  const { before } = codeAndCursor(request);
  const { objects, last, isOfExpression } = path(before);
  const cursor = [...before].length;
  // What an expression has could only be known by running it.
  if (isOfExpression) return { matches: [], cursor_start: cursor, cursor_end: cursor };
  const names = objects.length === 0 ? globals(kernel.language) : properties(resolve(objects));
  const matches = [...new Set(names)].filter((name) => name.startsWith(last) && NAME.test(name)).sort(byLikeliness);
  return { matches: matches.slice(0, MOST_MATCHES), cursor_start: cursor - [...last].length, cursor_end: cursor };
}

/** What is known of the name at the cursor. */
function inspect(kernel, request) {
  const { before, after } = codeAndCursor(request);
  const { detail = 0 } = request;
  if (detail !== 0 && detail !== 1) throw new Error('detail is 0 or 1');
  const { objects, last, isOfExpression } = path(before);
  const name = last + after.match(NAME_AFTER)[0];
  const found = name === '' || isOfExpression ? undefined : resolve([...objects, name]);
  return found === undefined ? { found: false, data: {} } : { found: true, data: { 'text/plain': described(found.value, detail) } };
}

/** Whether a prompt should run the code or ask for another line. */
function isComplete(kernel, request) {
  const { code } = codeAndCursor(request);
  const problem = kernel.language === 'typescript' ? typescriptProblem(code) : (javascriptProblem(code) && typescriptProblem(code));
  if (!problem) return { completeness: 'complete', indent: '' };
  return problem.atEnd ? { completeness: 'incomplete', indent: indentAfter(code) } : { completeness: 'invalid', indent: '' };
}

/** The language and who speaks it. */
function info(kernel) {
  const isTypeScript = kernel.language === 'typescript';
  return {
    language: kernel.language,
    version: isTypeScript ? dependencies.typescript : process.versions.node,
    mimetype: isTypeScript ? 'text/typescript' : 'text/javascript',
    file_extension: isTypeScript ? '.ts' : '.js',
    kernel: `skep-javascript-kernel ${version}`,
  };
}

function codeAndCursor({ code, cursor }) {
  if (typeof code !== 'string') throw new Error('code is a string');
  const letters = [...code];
  const place = cursor ?? letters.length;
  if (!Number.isInteger(place) || place < 0 || place > letters.length) throw new Error('the cursor is a number of characters of the code');
  return { code, before: letters.slice(0, place).join(''), after: letters.slice(place).join('') };
}

/** The names before the last dot, what is behind it, and whether all of it is a part of something that is no name. */
function path(before) {
  const text = before.slice(-LONGEST_PATH);
  const [found] = text.match(PATH);
  const names = found.split(/\??\./u);
  const isOfExpression = MEMBER_OF.test(text.slice(0, text.length - found.length));
  return { objects: names.slice(0, -1), last: names.at(-1), isOfExpression };
}

function globals(language) {
  const keywords = language === 'typescript' ? [...KEYWORDS, ...TYPE_KEYWORDS] : KEYWORDS;
  return [...properties({ value: globalThis }), ...keywords];
}

/** The value at the end of a path, as `{ value }`; undefined if there is none, or none without running a getter. */
function resolve(names) {
  let found = { value: globalThis };
  for (const name of names) {
    const value = found?.value;
    if (value === undefined || value === null || types.isProxy(value)) return undefined;
    found = field(Object(value), name);
  }
  return found;
}

function field(object, name) {
  for (let holder = object; holder !== null; holder = Object.getPrototypeOf(holder)) {
    if (types.isProxy(holder)) return undefined;
    const descriptor = Object.getOwnPropertyDescriptor(holder, name);
    if (descriptor !== undefined) return 'value' in descriptor ? { value: descriptor.value } : known(holder, name);
  }
  return undefined;
}

/** The getters of Node.js itself on the global object, such as `crypto`: they only load what they are called after. */
function known(holder, name) {
  return holder === globalThis && OWN_GETTERS.has(name) ? { value: globalThis[name] } : undefined;
}

const OWN_GETTERS = new Set(
  Object.entries(Object.getOwnPropertyDescriptors(globalThis))
    .filter(([, descriptor]) => descriptor.get !== undefined)
    .map(([name]) => name),
);

function properties(found) {
  const names = [];
  const value = found?.value;
  if (value === undefined || value === null) return names;
  for (let holder = Object(value); holder !== null; holder = Object.getPrototypeOf(holder)) {
    if (types.isProxy(holder)) break;
    names.push(...Object.getOwnPropertyNames(holder));
  }
  return names;
}

/** What begins with an underscore is meant for few. */
function byLikeliness(one, other) {
  return one.startsWith('_') - other.startsWith('_') || (one < other ? -1 : Number(one > other));
}

function described(value, detail) {
  if (typeof value !== 'function' || types.isProxy(value)) {
    return `${kind(value)}\n${show(value, { depth: 1, getters: false, customInspect: false, showProxy: true })}`;
  }
  const source = Function.prototype.toString.call(value);
  return detail === 1 ? `${kind(value)}\n${source}` : `${kind(value)}\n${signature(source)}`;
}

function kind(value) {
  if (value === null || typeof value !== 'object' || types.isProxy(value)) return `type: ${value === null ? 'null' : typeof value}`;
  const maker = field(value, 'constructor')?.value;
  const name = typeof maker === 'function' && !types.isProxy(maker) ? field(maker, 'name')?.value : undefined;
  return `type: ${typeof name === 'string' && name !== '' ? name : 'object'}`;
}

/** A function without its body. */
function signature(source) {
  try {
    const [{ expression }] = acorn.parse(`(${source})`, { ecmaVersion: 'latest' }).body;
    if (expression.type === 'ClassExpression') return source.slice(0, expression.body.start - 1).trimEnd();
    const end = expression.body.start - 1;
    return source.slice(0, end).replace(/\s*(?:=>)?\s*$/, '');
  } catch {
    // A method, or native code: its first line says as much.
    return source.split('\n', 1)[0].replace(/\s*\{.*$/, '');
  }
}

/** What keeps the code from being JavaScript, and whether more of it could help. */
function javascriptProblem(code) {
  try {
    parse(code);
    return null;
  } catch (error) {
    if (error.loc === undefined) throw error;
    const isOpen = /^Unterminated (?:template|comment)/.test(error.message);
    return { atEnd: isOpen || error.raisedAt > code.trimEnd().length || error.pos >= code.trimEnd().length };
  }
}

function typescriptProblem(code) {
  const { createSourceFile, ScriptKind, ScriptTarget } = typescriptCompiler.loadParser().typescript;
  const file = createSourceFile('prompt.ts', code, { languageVersion: ScriptTarget.ESNext }, true, ScriptKind.TS);
  const [problem] = file.parseDiagnostics;
  if (problem === undefined) return null;
  const isOpen = [UNTERMINATED_TEMPLATE, UNTERMINATED_COMMENT].includes(problem.code);
  return { atEnd: isOpen || problem.start >= code.trimEnd().length };
}

const UNTERMINATED_TEMPLATE = 1160;
const UNTERMINATED_COMMENT = 1010;

/** As far as the last line, and one step more behind what opens a block. */
function indentAfter(code) {
  const last = code.trimEnd().split('\n').at(-1);
  const indent = last.match(/^\s*/)[0];
  return /[{([]$/.test(last) ? `${indent}  ` : indent;
}

/** By the type of the request. */
const QUESTIONS = { complete, inspect, is_complete: isComplete, info };

module.exports = { QUESTIONS };
