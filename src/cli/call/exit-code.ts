/** What the commands that call a server end with, for scripts. */

export const EXIT = {
  completed: 0,
  /** A mistake in the use of the command, and whatever has no code of its own. */
  other: 1,
  /** The job failed, or at least one of the batch. */
  failed: 2,
  /** No key, one that is not accepted, or a tier that does not allow it. */
  refused: 3,
  /** No server there, one that cannot answer now, or something that is no Parley. */
  unreachable: 4,
  /** The job has not ended yet. */
  open: 5,
  interrupted: 130,
  terminated: 143,
} as const

export const EXIT_CODES_HELP = `
Exit codes: 0 completed, 1 usage and other errors, 2 the job failed, 3 the key or the tier does not allow it,
4 the server is not reached or cannot answer, 5 the job has not ended yet, 130 interrupted (143 by SIGTERM).`
