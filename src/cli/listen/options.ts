/** What `parley listen` takes. */
import { type Command, InvalidArgumentError, type Option } from 'commander'
import { numberFrom } from '../number-option.ts'
import type { ListenOptions } from './listen.ts'
import { isSecret } from './verify.ts'

const DEFAULT_PORT = 9000
const MAX_PORT = 65_535
/** The most seconds of a Retry-After that the server heeds. */
const MAX_RETRY_AFTER_S = 86_400
const MAX_FAILURES = 1_000_000

const HELP = `
The secret that callbacks are verified with is that of --secret, else of PARLEY_CALLBACK_SECRET, else that of
--account in the configured database, if there is one. Without a secret everything is printed as not verified.

What cannot be verified is answered with 401, everything else with 200. To see how failures are retried:
  parley listen --fail-first 2                                 500 twice, then 200
  parley listen --status 410                                   410 always: the server gives up
  parley listen --status 429 --retry-after 3 --fail-first 1    429 once, with Retry-After: 3

The server must allow loopback: "callbacks": { "allow_networks": ["127.0.0.0/8"] } in its parley.config.json.`

export function addListen(command: Command, config: () => Option): void {
  command
    .description('receive callbacks on this machine, verify and print them, for development')
    .option('--port <port>', 'port on 127.0.0.1; 0 picks a free one', numberFrom(0, MAX_PORT), DEFAULT_PORT)
    .option('--secret <secret>', 'whsec_…, as `parley accounts secret NAME` prints it', secretOf)
    .option('--account <name>', 'whose secret to look up', 'default')
    .option('--status <code>', 'answer every callback with this status', numberFrom(200, 599))
    .option('--retry-after <seconds>', 'and with this Retry-After', numberFrom(0, MAX_RETRY_AFTER_S))
    .option(
      '--fail-first <count>',
      'answer only so many callbacks with --status (500 without it)',
      numberFrom(1, MAX_FAILURES),
    )
    .option('--json', 'print each callback whole, as one line of JSON; all else goes to standard error')
    .addOption(config())
    .addHelpText('after', HELP)
    .action(async (options: ListenOptions) => {
      if (
        options.retryAfter !== undefined &&
        options.status === undefined &&
        options.failFirst === undefined
      ) {
        command.error(
          'error: --retry-after needs --status or --fail-first: a callback that arrived is not retried',
        )
      }
      const { listen } = await import('./listen.ts')
      await listen(options)
    })
}

function secretOf(text: string): string {
  if (!isSecret(text)) {
    throw new InvalidArgumentError(
      'It must be whsec_ and base64, as `parley accounts secret NAME` prints it.',
    )
  }
  return text
}
