/** Who runs a command, as the audit log names them. */
import { hostname, userInfo } from 'node:os'
import { CommandError } from './command-error.ts'

const MOST_CHARACTERS = 64
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

/** Such as `root@db1 (command line)`; PARLEY_OPERATOR stands in place of the user, where several share one. */
export function operatorName({ PARLEY_OPERATOR: given }: NodeJS.ProcessEnv): string {
  const name = given ? given.trim() : userName()
  if ([...name].length > MOST_CHARACTERS || name === '' || CONTROLS.test(name)) {
    throw new CommandError(`PARLEY_OPERATOR: must be 1 to ${MOST_CHARACTERS} characters, without controls.`)
  }
  return `${name}@${hostname()} (command line)`
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // As in a container, whose user may have a number only.
    return `user ${process.getuid?.() ?? 'unknown'}`
  }
}
