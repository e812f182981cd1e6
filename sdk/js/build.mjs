// Compiles the sources twice: as modules, and as what `require` takes. One compiler, no bundler.

import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('.', import.meta.url))
const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc')
const compile = (...options) => execFileSync(process.execPath, [compiler, ...options], { cwd: here, stdio: 'inherit' })

rmSync(new URL('dist', import.meta.url), { recursive: true, force: true })
compile('--project', 'tsconfig.json')
// The package says that its files are modules, and this folder says that its own are not.
mkdirSync(new URL('dist/cjs', import.meta.url), { recursive: true })
compile('--project', 'tsconfig.json', '--module', 'CommonJS', '--moduleResolution', 'Node10', '--outDir', 'dist/cjs')
writeFileSync(new URL('dist/cjs/package.json', import.meta.url), '{ "type": "commonjs" }\n')
