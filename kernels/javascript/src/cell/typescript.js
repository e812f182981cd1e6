'use strict';

// TypeScript, by its own compiler. Types are blanked out, which leaves every line and column where it is; what
// is more than types (enums, decorators, namespaces, parameter properties) is compiled, with a source map.

const { CellSyntaxError } = require('./syntax_error');
const { SourceMap } = require('./source_map');
const { load } = require('./typescript_compiler');

/**
 * JavaScript for TypeScript.
 *
 * @returns {{code: string, map: SourceMap|null}}
 */
function toJavaScript(code, file) {
  const { compiler, blank } = load();
  const { createSourceFile, ScriptKind, ScriptTarget } = compiler;
  const parsed = createSourceFile(file, code, { languageVersion: ScriptTarget.ESNext }, true, ScriptKind.TS);
  const [problem] = parsed.parseDiagnostics;
  if (problem !== undefined) throw syntaxError(compiler, parsed, problem);
  let isErasable = !hasDecorators(compiler, parsed);
  if (!isErasable) return compile(compiler, code, file);
  const blanked = blank(parsed, () => {
    isErasable = false;
  });
  return isErasable ? { code: blanked, map: null } : compile(compiler, code, file);
}

function hasDecorators(compiler, node) {
  if (node.kind === compiler.SyntaxKind.Decorator) return true;
  return Boolean(compiler.forEachChild(node, (child) => hasDecorators(compiler, child) || undefined));
}

function compile(compiler, code, file) {
  const { ModuleKind, ScriptTarget, transpileModule } = compiler;
  const { outputText, sourceMapText } = transpileModule(code, {
    fileName: file,
    compilerOptions: {
      module: ModuleKind.ESNext,
      target: ScriptTarget.ES2022,
      sourceMap: true,
      // A later cell may use what this one only imports.
      verbatimModuleSyntax: true,
    },
  });
  // A cell is not strict unless it says so itself, and then the compiler does not add to it.
  const sloppy = code.trimStart().startsWith('"use strict"') ? outputText : outputText.replace(/^"use strict";/, ';');
  return { code: sloppy.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n'), map: new SourceMap(JSON.parse(sourceMapText).mappings) };
}

function syntaxError(compiler, parsed, problem) {
  const { line, character } = parsed.getLineAndCharacterOfPosition(problem.start);
  const message = compiler.flattenDiagnosticMessageText(problem.messageText, '\n');
  return new CellSyntaxError(message, line + 1, character);
}

module.exports = { toJavaScript };
