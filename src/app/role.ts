/** What a node does: accept and answer, run jobs and deliver callbacks, or both. */

export const ROLES = ['all', 'api', 'worker'] as const
export type Role = (typeof ROLES)[number]
