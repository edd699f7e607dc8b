/** Turns SQLite's errors in a transfer into problems that the operator can fix. */
import { DatabaseProblem } from '../database-problem.ts'

export function asProblem<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof Error && 'errcode' in error) {
      throw new DatabaseProblem(`SQLite reports: ${error.message}.`, { cause: error })
    }
    throw error
  }
}
