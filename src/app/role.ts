/** What a node does: serve the API, run jobs and deliver callbacks, or both. */

export const ROLES = ['all', 'api', 'worker'] as const
export type Role = (typeof ROLES)[number]
