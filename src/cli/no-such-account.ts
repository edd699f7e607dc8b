/** The error for an account that does not exist. */
import { CommandError } from './command-error.ts'

export function noSuchAccount(name: string): CommandError {
  return new CommandError(
    `There is no account ${name}. \`parley accounts list\` shows all accounts; \`parley keys create --account ${name} --tier TIER\` creates this one.`,
  )
}
