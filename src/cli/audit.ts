/** `parley audit`: lists the audit log, newest first. */
import { auditEntryView } from '../admin/audit-entry-view.ts'
import { readJobId } from '../job/job-id.ts'
import type { AuditEntry } from '../store/audit-store.ts'
import { CommandError } from './command-error.ts'
import { printLine } from './output.ts'
import { printable } from './printable.ts'
import { table } from './table.ts'
import { withOperatorStore } from './with-operator-store.ts'

/** Longer outcomes are truncated in the table. */
const MAX_OUTCOME_LENGTH = 60

export interface AuditOptions {
  readonly account?: string
  readonly before?: string
  readonly limit: number
  readonly json?: true
  readonly config?: string
}

export async function audit({ account, limit, json, config, ...options }: AuditOptions): Promise<void> {
  const before = options.before === undefined ? undefined : readJobId(options.before)
  if (before === null) {
    throw new CommandError(
      `--before: ${options.before} is not the ID of an audit log entry. \`parley audit --json\` shows the IDs.`,
    )
  }
  const entries = await withOperatorStore(config, (store) =>
    store.listAuditEntries({
      ...(account !== undefined && { account }),
      ...(before !== undefined && { beforeEntryId: before }),
      limit,
    }),
  )
  if (json) return printLine(JSON.stringify(entries.map(auditEntryView), null, 2))
  if (entries.length === 0) return printLine('The audit log has no entries.')
  printLine(table([['WHEN', 'WHO', 'WHAT', 'ACCOUNT', 'JOB OR KEY', 'OUTCOME'], ...entries.map(rowOf)]))
  const last = entries.at(-1)
  if (last && entries.length === limit) printLine(`For older entries, add --before ${last.id}`)
}

function rowOf({ atMs, who, what, account, target, detailsJson, outcome }: AuditEntry): string[] {
  const when = `${new Date(atMs).toISOString().slice(0, 19)}Z`
  const details = detailsJson === '{}' ? '' : ` ${detailsJson}`
  const cells = [when, who, what + details, account ?? '', target ?? ''].map((text) => printable(text))
  return [...cells, printable(outcome ?? 'unknown: in progress, or interrupted', MAX_OUTCOME_LENGTH)]
}
