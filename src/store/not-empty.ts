/** The error of a transfer whose target is not empty. */
import { DatabaseProblem } from './database-problem.ts'

/** @param place without a password */
export function notEmpty(place: string): DatabaseProblem {
  return new DatabaseProblem(
    `${place} holds accounts or jobs already, and a copy never mixes two databases. Name one that no server has been started on.`,
  )
}
