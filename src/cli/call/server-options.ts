/** Where the server is and who calls it: what every calling command takes. */
import type { Command } from 'commander'

export interface ServerOptions {
  readonly url?: string
  readonly key?: string
}

export function addServerOptions(command: Command): Command {
  return command
    .option('--url <url>', 'the server (default: PARLEY_URL, or http://127.0.0.1:8080)')
    .option('--key <key>', 'the API key (default: PARLEY_API_KEY, which other users cannot see)')
}
