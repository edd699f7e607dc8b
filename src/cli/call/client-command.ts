/** What all commands that call a server share: exit codes, and the options for the server's URL and the API key. */
import type { Command } from 'commander'

/** Scripts rely on these codes, so they must not change. */
export const EXIT = {
  completed: 0,
  /** Usage errors, and all errors without their own code. */
  other: 1,
  /** The job failed, or at least one job of a batch did. */
  failed: 2,
  /** There is no API key, the server rejected it, or its tier does not allow the request. */
  rejected: 3,
  /** The server is unreachable or unavailable, or the response is not from a Parley server. */
  unreachable: 4,
  /** The job has not finished yet. */
  open: 5,
  interrupted: 130,
  terminated: 143,
} as const

export const EXIT_CODES_HELP = `
Exit codes: 0 completed, 1 usage and other errors, 2 the job failed, 3 the key or its tier does not allow the request,
4 the server cannot be reached or is unavailable, 5 the job has not finished yet, 130 interrupted (143 by SIGTERM).`

export interface ServerOptions {
  readonly url?: string
  readonly key?: string
}

export function addServerOptions(command: Command): Command {
  return command
    .option('--url <url>', 'the URL of the server (default: PARLEY_URL, or http://127.0.0.1:8080)')
    .option(
      '--key <key>',
      'the API key (default: PARLEY_API_KEY, which other users cannot see, unlike an option)',
    )
}
