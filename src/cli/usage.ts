/** `parley usage`: what accounts have used, as a table, as JSON, or as CSV for a bill. */
import { sumOf, usageRecordView } from '../admin/usage-view.ts'
import type { UsageRecord } from '../store/usage-store.ts'
import { printLine } from './output.ts'
import { table } from './table.ts'
import { withOperatorStore } from './with-operator-store.ts'

/** Rows asked for at once. */
const PAGE = 1000

export interface UsageOptions {
  readonly account?: string
  readonly month?: string
  readonly json?: true
  readonly csv?: true
  readonly config?: string
}

export async function usage({ account, month, json, csv, config }: UsageOptions): Promise<void> {
  const which = { ...(account !== undefined && { account }), ...(month !== undefined && { month }) }
  const records = await withOperatorStore(config, async (store) => {
    const all: UsageRecord[] = []
    for (let page: UsageRecord[] | null = null; page === null || page.length === PAGE; ) {
      const after = all.at(-1)
      page = await store.listUsage({ ...which, ...(after && { after }), limit: PAGE })
      all.push(...page)
    }
    return all
  })
  if (json) return printLine(JSON.stringify(records.map(usageRecordView), null, 2))
  if (csv) return printLine(csvOf(records))
  if (records.length === 0) return printLine('Nothing was used.')
  printLine(table([NAMES, ...records.flatMap(rowsOf)]))
}

const NAMES = ['MONTH', 'ACCOUNT', 'MODEL', 'JOBS', 'FAILED', 'KEPT ANSWERS', 'CALLS', 'INPUT', 'OUTPUT']

/** The row of a record, and after the last of a month that month's sums. */
function rowsOf(record: UsageRecord, at: number, all: readonly UsageRecord[]): string[][] {
  const { month, account, model } = record
  const row = [month, account, model, ...numbersOf(record)]
  if (all[at + 1]?.month === month) return [row]
  const ofMonth = all.filter((one) => one.month === month)
  return [row, [month, 'all', '', ...numbersOf(sumOf(ofMonth))]]
}

function numbersOf(sums: Pick<UsageRecord, keyof ReturnType<typeof sumOf>>): string[] {
  const { jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens } = sums
  return [jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens].map(String)
}

const COLUMNS = [
  ...(['month', 'account', 'model', 'jobs', 'failed_jobs', 'cache_hits', 'calls'] as const),
  ...(['input_tokens', 'output_tokens'] as const),
]

/** Names of accounts and models begin with no sign that a spreadsheet would take for a formula, but for a model named `-…`. */
function csvOf(records: readonly UsageRecord[]): string {
  const rows = records.map((record) => {
    const view = usageRecordView(record)
    return COLUMNS.map((column) => csvCell(String(view[column]))).join(',')
  })
  return [COLUMNS.join(','), ...rows].join('\n')
}

/** RFC 4180. */
function csvCell(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
