import type { Context as OfficialContext } from '@e2b/code-interpreter'

import type { Wire } from './execution.js'
import type { Notebook } from './notebook.js'

/** A state of a context that can be gone back to. */
export interface Checkpoint {
  id: string
  /** The state that it descends from. */
  parentId?: string
  createdAt: Date
  /** Whether the context descends from it now. */
  current: boolean
  /** Why it cannot be gone back to any more, if its process has ended. */
  lost?: string
}

function checkpointFrom(data: Wire): Checkpoint {
  return {
    id: data.id,
    parentId: data.parent_id ?? undefined,
    createdAt: new Date(data.created_at),
    current: data.current,
    lost: data.lost ?? undefined,
  }
}

/** What a context asks its sandbox for. */
export interface ContextHost {
  ask(wanted: string, method: string, path: string, body?: unknown): Promise<Response>
  notebook(context: string): Promise<Notebook>
}

/** A session with variables. One of Python can be copied in milliseconds. */
export class Context implements OfficialContext {
  #host: ContextHost

  constructor(
    host: ContextHost,
    readonly id: string,
    readonly language: string,
    readonly cwd: string,
  ) {
    this.#host = host
  }

  /** @internal */
  static from(host: ContextHost, data: Wire): Context {
    return new Context(host, data.id, data.language, data.cwd)
  }

  #ask(wanted: string, method: string, rest: string, body?: unknown): Promise<Response> {
    return this.#host.ask(`\`${wanted}\``, method, `/contexts/${encodeURIComponent(this.id)}/${rest}`, body)
  }

  /** Makes a second context that has the same variables. Both go on. */
  async fork(): Promise<Context> {
    return Context.from(this.#host, await (await this.#ask('fork', 'POST', 'fork')).json())
  }

  /** Keeps the present state, so that it can be gone back to. */
  async checkpoint(): Promise<Checkpoint> {
    return checkpointFrom(await (await this.#ask('checkpoint', 'POST', 'checkpoints')).json())
  }

  /** All that are kept, the oldest first. */
  async checkpoints(): Promise<Checkpoint[]> {
    return (await (await this.#ask('checkpoints', 'GET', 'checkpoints')).json()).map(checkpointFrom)
  }

  /** Puts the state of a checkpoint in place of the present one. The checkpoint stays. */
  async rollback(checkpoint: Checkpoint | string): Promise<void> {
    await this.#ask('rollback', 'POST', 'rollback', { checkpoint_id: idOf(checkpoint) })
  }

  /** Removes a checkpoint, which gives its memory back. */
  async removeCheckpoint(checkpoint: Checkpoint | string): Promise<void> {
    await this.#ask('removeCheckpoint', 'DELETE', `checkpoints/${encodeURIComponent(idOf(checkpoint))}`)
  }

  /** Everything that was run in it. */
  notebook(): Promise<Notebook> {
    return this.#host.notebook(this.id)
  }
}

const idOf = (checkpoint: Checkpoint | string) => (typeof checkpoint === 'string' ? checkpoint : checkpoint.id)
