/** Who runs a command, as the audit log records it. */
import { hostname, userInfo } from 'node:os'
import { CommandError } from './command-error.ts'

const MAX_CHARACTERS = 64
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

/** For example `root@db1 (command line)`. PARLEY_OPERATOR replaces the user name if several people share one user. */
export function operatorName({ PARLEY_OPERATOR: given }: NodeJS.ProcessEnv): string {
  const name = given ? given.trim() : userName()
  if ([...name].length > MAX_CHARACTERS || name === '' || CONTROLS.test(name)) {
    throw new CommandError(
      `PARLEY_OPERATOR: must be 1 to ${MAX_CHARACTERS} characters, without control characters.`,
    )
  }
  return `${name}@${hostname()} (command line)`
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // The user has no name, which is common in containers.
    return `user ${process.getuid?.() ?? 'unknown'}`
  }
}
