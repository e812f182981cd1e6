import type { Wire } from './execution.js'

/** Everything that was run in a context, as a file for Jupyter (nbformat 4.5). */
export class Notebook {
  constructor(readonly text: string) {}

  get cells(): Wire[] {
    return this.toJSON().cells
  }

  toJSON(): Wire {
    return JSON.parse(this.text)
  }

  /** Writes the notebook, where there are files. */
  async save(path: string): Promise<void> {
    const { writeFile } = await import('node:fs/promises')
    await writeFile(path, this.text)
  }
}
