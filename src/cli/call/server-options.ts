/** The options of all client commands: the server's URL and the API key. */
import type { Command } from 'commander'

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
