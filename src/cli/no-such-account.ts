/** What is said of an account that is not there. */
import { CommandError } from './command-error.ts'

export function noSuchAccount(name: string): CommandError {
  return new CommandError(
    `There is no account ${name}. \`parley accounts list\` shows those there are; \`parley keys create --account ${name} --tier TIER\` makes it.`,
  )
}
