import { SandboxError } from '@e2b/code-interpreter'

/** The server is not Skep, so it would have ignored what was asked of it. */
export class NotSkepError extends SandboxError {
  constructor(wanted: string, server: string) {
    super(
      `${wanted} needs a Skep server, and ${server} is none: leave it out there, or set E2B_DOMAIN (or E2B_API_URL) to a server that has it`,
    )
    this.name = 'NotSkepError'
  }
}

/** No server of this host could be used, and none could be started. */
export class LocalServerError extends SandboxError {
  constructor(message: string) {
    super(message)
    this.name = 'LocalServerError'
  }
}
