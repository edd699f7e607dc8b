/** The commands for whoever runs a server. What each does is in a file of its own, loaded when it is called. */
import type { Command } from 'commander'
import { addListen } from '../listen/options.ts'
import { addAccounts } from './accounts.ts'
import { addCallbacks } from './callbacks.ts'
import { addJobs } from './jobs.ts'
import { addKeys } from './keys.ts'
import { config } from './parts.ts'
import { addRecords } from './records.ts'
import { addBackup, addDatabase, addServe } from './serving.ts'

export function addOperatorCommands(program: Command, exit: (code: number) => void): void {
  addServe(program, exit)
  addDatabase(program)
  addBackup(program)
  addKeys(program.command('keys').description('create, list and revoke API keys'))
  addAccounts(
    program
      .command('accounts')
      .description('tiers, caps, callback secrets; suspending and deleting accounts'),
  )
  addJobs(program.command('jobs').description('cancelling and deleting jobs of any account'))
  addCallbacks(program.command('callbacks').description('what became of callbacks, and sending them again'))
  addListen(program.command('listen'), config)
  addRecords(program)
}
