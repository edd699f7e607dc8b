/** Defines the options of `parley listen`. */
import { type Command, InvalidArgumentError, type Option } from 'commander'
import { numberFrom } from '../operator/shared-options.ts'
import type { ListenOptions } from './listen.ts'
import { isSecret } from './verify.ts'

const DEFAULT_PORT = 9000
const MAX_PORT = 65_535
/** The longest Retry-After that Parley respects. */
const MAX_RETRY_AFTER_S = 86_400
const MAX_FAILURES = 1_000_000

const HELP = `
Callbacks are verified with the secret in --secret or PARLEY_CALLBACK_SECRET. If neither is set, it is the secret of
--account in the configured database. Without a secret, callbacks are printed as not verified.

Callbacks that fail verification get a 401 response, all others 200. To see how failures are retried:
  parley listen --fail-first 2                                 500 twice, then 200
  parley listen --status 410                                   always 410: the server gives up
  parley listen --status 429 --retry-after 3 --fail-first 1    429 once, with Retry-After: 3

Allow loopback addresses in the server's parley.config.json: "callbacks": { "allow_networks": ["127.0.0.0/8"] }`

export function addListen(command: Command, config: () => Option): void {
  command
    .description('receive, verify and print callbacks on this machine, for development')
    .option('--port <port>', 'port on 127.0.0.1; 0 picks a free one', numberFrom(0, MAX_PORT), DEFAULT_PORT)
    .option('--secret <secret>', 'the secret (whsec_…) that `parley accounts secret NAME` prints', secretOf)
    .option('--account <name>', 'the account whose secret is looked up', 'default')
    .option('--status <code>', 'respond to every callback with this status', numberFrom(200, 599))
    .option(
      '--retry-after <seconds>',
      'with --status or --fail-first: send this Retry-After',
      numberFrom(0, MAX_RETRY_AFTER_S),
    )
    .option(
      '--fail-first <count>',
      'respond only to this many callbacks with --status (default: 500)',
      numberFrom(1, MAX_FAILURES),
    )
    .option('--json', 'print each callback as one line of JSON; everything else goes to standard error')
    .addOption(config())
    .addHelpText('after', HELP)
    .action(async (options: ListenOptions) => {
      if (
        options.retryAfter !== undefined &&
        options.status === undefined &&
        options.failFirst === undefined
      ) {
        command.error(
          'error: --retry-after needs --status or --fail-first, because a delivered callback is not retried',
        )
      }
      const { listen } = await import('./listen.ts')
      await listen(options)
    })
}

function secretOf(text: string): string {
  if (!isSecret(text)) {
    throw new InvalidArgumentError(
      'It must be whsec_ followed by base64. `parley accounts secret NAME` prints the secret.',
    )
  }
  return text
}
