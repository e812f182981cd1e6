'use strict';

// TypeScript, by its own compiler. Types are blanked out, which leaves every line and column where it is; what
// is more than types (enums, decorators, namespaces, parameter properties) is compiled, with a source map.

const { CellSyntaxError } = require('./syntax_error');
const { SourceMap } = require('./source_map');
const { loadCompiler, loadParser } = require('./typescript_compiler');

/**
 * JavaScript for TypeScript.
 *
 * @returns {{code: string, map: SourceMap|null}}
 */
function toJavaScript(code, file) {
  const { typescript, blank } = loadParser();
  const { createSourceFile, ScriptKind, ScriptTarget } = typescript;
  const parsed = createSourceFile(file, code, { languageVersion: ScriptTarget.ESNext }, true, ScriptKind.TS);
  const [problem] = parsed.parseDiagnostics;
  if (problem !== undefined) throw syntaxError(typescript, parsed, problem);
  let isErasable = !hasDecorators(typescript, parsed);
  if (!isErasable) return compile(code, file);
  const blanked = blank(parsed, () => {
    isErasable = false;
  });
  return isErasable ? { code: blanked, map: null } : compile(code, file);
}

function hasDecorators(typescript, node) {
  if (node.kind === typescript.SyntaxKind.Decorator) return true;
  return Boolean(typescript.forEachChild(node, (child) => hasDecorators(typescript, child) || undefined));
}

function compile(code, file) {
  const { ModuleKind, ScriptTarget, transpileModule } = loadCompiler();
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

function syntaxError(typescript, parsed, problem) {
  const { line, character } = parsed.getLineAndCharacterOfPosition(problem.start);
  const message = typescript.flattenDiagnosticMessageText(problem.messageText, '\n');
  return new CellSyntaxError(message, line + 1, character);
}

module.exports = { toJavaScript };
