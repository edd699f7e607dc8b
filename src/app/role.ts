/** The roles of a node: it serves the API, runs jobs and delivers callbacks, or does both. */

export const ROLES = ['all', 'api', 'worker'] as const
export type Role = (typeof ROLES)[number]
