// The SDK under test. It is imported from the folder the runner installed it to, so that the same
// cases drive both generations, and our own package, which extends one of them.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const modules = process.env.CONFORMANCE_NODE_MODULES
const folder = join(modules, 'e2b')

export const e2b = await import(pathToFileURL(join(folder, 'dist/index.mjs')))
export const isOurs = process.env.CONFORMANCE_PACKAGE === 'skep'
const entry = isOurs ? '@skep/sdk/dist/esm/index.js' : '@e2b/code-interpreter/dist/index.mjs'
export const interpreter = await import(pathToFileURL(join(modules, entry)))
// The cases of the SDK without an interpreter expect its template.
const Ours = isOurs && class Sandbox extends interpreter.Sandbox { static defaultTemplate = 'base' }
export const Sandbox = Ours || e2b.Sandbox
export const version = JSON.parse(readFileSync(join(folder, 'package.json'))).version
export const isYear = version === '2.7.0'

/** What this generation of the SDK is expected to show. */
export const byGeneration = (expected) => (isYear ? expected.year : expected.new)
