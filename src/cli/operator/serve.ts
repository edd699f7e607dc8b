/** The options of `parley serve` and `parley check`. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { ROLES } from '../../app/role.ts'
import type { CheckOptions } from '../check/check.ts'
import type { ServeOptions } from '../serve.ts'
import { config, examples } from './shared-options.ts'

export function addServe(program: Command, exit: (code: number) => void): void {
  program
    .command('serve')
    .description('start the server')
    .addOption(config())
    .addOption(
      new Option(
        '--role <role>',
        'api accepts jobs and serves requests; worker runs jobs; both need a shared database',
      )
        .choices([...ROLES])
        .default('all'),
    )
    .addOption(
      new Option('--threads <number>', 'accepted for compatibility with 0.3, without effect').argParser(
        threadsOf,
      ),
    )
    .addHelpText(
      'after',
      examples(
        'parley serve                                    on http://127.0.0.1:8080, with ./data/parley.db',
        'PORT=9090 OPENAI_API_KEY=sk-… parley serve',
        'DATABASE_URL=postgres://db/parley parley serve --role worker',
      ),
    )
    .action(async (options: ServeOptions) => exit(await (await import('../serve.ts')).serve(options)))
}

/** As the setting: `config/settings.ts` is not loaded for the help text. */
const MAX_THREADS = 64

function threadsOf(text: string): number | 'auto' {
  if (text === 'auto') return text
  if (!/^[1-9]\d?$/.test(text) || Number(text) > MAX_THREADS) {
    throw new InvalidArgumentError(`It must be auto or a whole number from 1 to ${MAX_THREADS}.`)
  }
  return Number(text)
}

export function addCheck(program: Command, exit: (code: number) => void): void {
  program
    .command('check')
    .description('check the configuration and the connections to the database and the model servers')
    .option('--json', 'print the findings as a JSON array')
    .option('--calls', 'also make paid calls to each model: a short answer, roles, JSON, two at once')
    .addOption(config())
    .addHelpText(
      'after',
      examples(
        'parley check',
        'parley check --calls                            5 paid calls to each model',
        'parley check --config production.json && parley serve',
      ),
    )
    .action(async (options: CheckOptions) => exit(await (await import('../check/check.ts')).check(options)))
}
