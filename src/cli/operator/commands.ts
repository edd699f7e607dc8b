/** The server commands. Each is implemented in its own file, which is loaded when the command runs. */
import type { Command } from 'commander'
import { addListen } from '../listen/options.ts'
import { addAccounts } from './accounts.ts'
import { addCallbacks } from './callbacks.ts'
import { addBackup, addDatabase } from './database.ts'
import { addJobs } from './jobs.ts'
import { addKeys } from './keys.ts'
import { addRecords } from './records.ts'
import { addCheck, addServe } from './serve.ts'
import { config } from './shared-options.ts'

export function addOperatorCommands(program: Command, exit: (code: number) => void): void {
  addServe(program, exit)
  addCheck(program, exit)
  addDatabase(program)
  addBackup(program)
  addKeys(program.command('keys').description('create, list and revoke API keys'))
  addAccounts(
    program
      .command('accounts')
      .description(
        'list accounts; set tiers and caps; show callback secrets; suspend, resume and delete accounts',
      ),
  )
  addJobs(
    program.command('jobs').description('list your jobs over HTTP; cancel and delete jobs of any account'),
    exit,
  )
  addCallbacks(program.command('callbacks').description('list, show and replay callbacks'))
  addListen(program.command('listen'), config)
  addRecords(program)
}
