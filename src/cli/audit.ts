/** `parley audit`: who did what, newest first. */
import { actView } from '../admin/audit-view.ts'
import { isJobId } from '../job/job-id.ts'
import type { Act } from '../store/audit-store.ts'
import { CommandError } from './command-error.ts'
import { printLine } from './output.ts'
import { printable } from './printable.ts'
import { table } from './table.ts'
import { withOperatorStore } from './with-operator-store.ts'

/** Characters of an outcome in a line. */
const SHOWN = 60

export interface AuditOptions {
  readonly account?: string
  readonly before?: string
  readonly limit: number
  readonly json?: true
  readonly config?: string
}

export async function audit({ account, before, limit, json, config }: AuditOptions): Promise<void> {
  if (before !== undefined && !isJobId(before)) {
    throw new CommandError('--before: must be the id of an act, as `parley audit --json` shows it.')
  }
  const acts = await withOperatorStore(config, (store) =>
    store.listActs({
      ...(account !== undefined && { account }),
      ...(before !== undefined && { beforeActId: before }),
      limit,
    }),
  )
  if (json) return printLine(JSON.stringify(acts.map(actView), null, 2))
  if (acts.length === 0) return printLine('Nothing was done.')
  printLine(table([['WHEN', 'WHO', 'WHAT', 'ACCOUNT', 'JOB OR KEY', 'OUTCOME'], ...acts.map(rowOf)]))
  const last = acts.at(-1)
  if (last && acts.length === limit) printLine(`More: add --before ${last.id}`)
}

function rowOf({ atMs, who, what, account, target, detailsJson, outcome }: Act): string[] {
  const when = `${new Date(atMs).toISOString().slice(0, 19)}Z`
  const details = detailsJson === '{}' ? '' : ` ${detailsJson}`
  const came = outcome ?? 'not known: under way, or cut off'
  return [when, who, what + details, account ?? '', target ?? '', came].map((text, at) =>
    printable(text, at === 5 ? SHOWN : Number.POSITIVE_INFINITY),
  )
}
