// Loads every case into one process; node's test runner then runs them one after another.

import { readdirSync } from 'node:fs'

const folder = new URL('./tests/', import.meta.url)
try {
  for (const file of readdirSync(folder).sort()) await import(new URL(file, folder))
} catch (error) {
  console.error(error)
  process.exit(3)
}
