/** Entries of the audit log as operators are shown them. Times are Unix seconds. */
import type { Act } from '../store/audit-store.ts'

export function actView({ id, atMs, who, what, account, target, detailsJson, outcome }: Act) {
  const details = JSON.parse(detailsJson) as Readonly<Record<string, unknown>>
  return { id, at: atMs / 1000, who, what, account, target, details, outcome }
}
