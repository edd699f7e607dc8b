/** `parley usage`: prints usage as a table, as JSON, or as CSV. */
import { sumOf, usageRecordView } from '../admin/usage-view.ts'
import type { UsageRecord } from '../store/usage-store.ts'
import { printLine } from './output.ts'
import { table } from './table.ts'
import { withOperatorStore } from './with-operator-store.ts'

/** Records read per query. */
const PAGE_SIZE = 1000

export interface UsageOptions {
  readonly account?: string
  readonly month?: string
  readonly json?: true
  readonly csv?: true
  readonly config?: string
}

export async function usage({ account, month, json, csv, config }: UsageOptions): Promise<void> {
  const filter = { ...(account !== undefined && { account }), ...(month !== undefined && { month }) }
  const records = await withOperatorStore(config, async (store) => {
    const all: UsageRecord[] = []
    for (let page: UsageRecord[] | null = null; page === null || page.length === PAGE_SIZE; ) {
      const after = all.at(-1)
      page = await store.listUsage({ ...filter, ...(after && { after }), limit: PAGE_SIZE })
      all.push(...page)
    }
    return all
  })
  if (json) return printLine(JSON.stringify(records.map(usageRecordView), null, 2))
  if (csv) return printLine(csvOf(records))
  if (records.length === 0) return printLine('No usage was recorded.')
  printLine(table([HEADER, ...records.flatMap(rowsOf)]))
}

const HEADER = ['MONTH', 'ACCOUNT', 'MODEL', 'JOBS', 'FAILED', 'CACHE HITS', 'CALLS', 'INPUT', 'OUTPUT']

/** The row of a record. After the last record of a month comes a row with the month's totals. */
function rowsOf(record: UsageRecord, at: number, all: readonly UsageRecord[]): string[][] {
  const { month, account, model } = record
  const row = [month, account, model, ...numbersOf(record)]
  if (all[at + 1]?.month === month) return [row]
  const ofMonth = all.filter((one) => one.month === month)
  return [row, [month, 'all', '', ...numbersOf(sumOf(ofMonth))]]
}

function numbersOf(totals: Pick<UsageRecord, keyof ReturnType<typeof sumOf>>): string[] {
  const { jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens } = totals
  return [jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens].map(String)
}

const COLUMNS = [
  ...(['month', 'account', 'model', 'jobs', 'failed_jobs', 'cache_hits', 'calls'] as const),
  ...(['input_tokens', 'output_tokens'] as const),
]

/** Only a model named `-…` could be mistaken for a formula by a spreadsheet; other names cannot start with such a character. */
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
