/** Something about the database that its operator must fix; the message explains what and how. */
export class DatabaseProblem extends Error {
  override readonly name = 'DatabaseProblem'
}
