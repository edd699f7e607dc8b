/** Errors of SQLite in a copy, as what the operator must mend. */
import { DatabaseProblem } from '../database-problem.ts'

export function toldAsProblem<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof Error && 'errcode' in error) {
      throw new DatabaseProblem(`SQLite says: ${error.message}.`, { cause: error })
    }
    throw error
  }
}
