/** `parley accounts list`, `keys list`, `tokens list`, `usage` and `audit` print records as a table, as JSON or as CSV. */
import {
  accountView,
  keyView,
  sumOf,
  USAGE_FIELDS,
  type UsageRow,
  type UsageSums,
  usageRowView,
} from '../admin/account-view.ts'
import { tokenView } from '../admin/admin-tokens.ts'
import { auditEntryView } from '../admin/audit-entry.ts'
import { defined } from '../admin/fields.ts'
import { isMetadataKey, usageByMetadata } from '../admin/usage-events.ts'
import { amountText } from '../job/amount.ts'
import { readJobId } from '../job/job-id.ts'
import type { AccountRecord, KeyRecord } from '../store/account-store.ts'
import type { AuditEntry } from '../store/operator-store.ts'
import type { UsageRecord } from '../store/usage-store.ts'
import { withOperatorStore } from './database.ts'
import { CommandError, printable, printLine, table, timeOf } from './input-output.ts'
import { type DefaultOptions, USAGE_KEYS } from './options.ts'

const PAGE_SIZE = 1000

async function readAll<T>(read: (last: T | undefined) => Promise<T[]>): Promise<T[]> {
  const all: T[] = []
  for (let page: T[] | null = null; page === null || page.length === PAGE_SIZE; ) {
    page = await read(all.at(-1))
    all.push(...page)
  }
  return all
}

export async function listAccounts({ json, config }: DefaultOptions): Promise<void> {
  const accounts = await withOperatorStore(config, async (store) => {
    const all = await readAll((last: AccountRecord | undefined) =>
      store.listAccounts({ ...defined({ after: last?.name }), limit: PAGE_SIZE, nowMs: Date.now() }),
    )
    return all.map((record) => accountView(record, false))
  })
  if (json) return printLine(JSON.stringify(accounts, null, 2))
  if (accounts.length === 0)
    return printLine('There are no accounts. Create one: parley keys create --account NAME --tier TIER')
  const withCost = accounts.some(({ max_monthly_cost: cost }) => cost !== undefined)
  const rows = accounts.map((account) => [
    account.name,
    account.tier,
    `${account.active_keys} of ${account.keys}`,
    String(account.max_monthly_jobs),
    String(account.max_monthly_tokens),
    ...(withCost ? [String(account.max_monthly_cost ?? 'tier')] : []),
    `${account.open_jobs} / ${account.max_open_jobs}`,
    `${account.stored_bytes} / ${account.max_stored_bytes}`,
    account.suspended_at === null ? '' : `since ${timeOf(account.suspended_at * 1000)}`,
  ])
  printLine(
    table([
      [
        ...['ACCOUNT', 'TIER', 'ACTIVE KEYS', 'JOBS PER MONTH', 'TOKENS PER MONTH'],
        ...(withCost ? ['COST PER MONTH'] : []),
        ...['OPEN JOBS / MAX', 'STORED BYTES / MAX', 'SUSPENDED'],
      ],
      ...rows,
    ]),
  )
}

export async function listKeys({ json, config }: DefaultOptions): Promise<void> {
  const keys = await withOperatorStore(config, (accounts) => accounts.listKeys())
  if (json) return printLine(JSON.stringify(keys.map(keyView), null, 2))
  if (keys.length === 0)
    return printLine('There are no keys. Create one: parley keys create --account NAME --tier TIER')
  const rows = keys.map((key) => [
    key.id,
    key.account,
    key.tier,
    day(key.createdAtMs),
    stateOf(key, Date.now()),
    key.usedAtMs === null ? 'never' : timeOf(key.usedAtMs),
    printable(key.label ?? ''),
  ])
  printLine(table([['KEY ID', 'ACCOUNT', 'TIER', 'CREATED', 'STATE', 'LAST USED', 'LABEL'], ...rows]))
}

export async function listTokens({ json, config }: DefaultOptions): Promise<void> {
  const tokens = await withOperatorStore(config, (store) => store.listAdminTokens())
  if (json) return printLine(JSON.stringify(tokens.map(tokenView), null, 2))
  if (tokens.length === 0)
    return printLine(
      'Operators share the token of the server. Create one for an operator: parley tokens create NAME',
    )
  const rows = tokens.map((token) => [
    token.id,
    printable(token.name),
    token.readOnly ? 'read-only' : 'everything',
    day(token.createdAtMs),
    stateOf(token, Date.now()),
  ])
  printLine(table([['TOKEN ID', 'NAME', 'ALLOWS', 'CREATED', 'STATE'], ...rows]))
}

function stateOf(
  { expiresAtMs, revokedAtMs }: Pick<KeyRecord, 'expiresAtMs' | 'revokedAtMs'>,
  nowMs: number,
): string {
  if (revokedAtMs !== null) return `revoked ${day(revokedAtMs)}`
  if (expiresAtMs === null) return 'active'
  return expiresAtMs <= nowMs ? `expired ${day(expiresAtMs)}` : `active until ${day(expiresAtMs)}`
}

function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

export interface UsageOptions extends DefaultOptions {
  readonly account?: string
  readonly month?: string
  /** Usage is summed by these keys. Without them, each month, account and model has its own row. */
  readonly by?: readonly string[]
  readonly csv?: true
}

export async function usage(options: UsageOptions): Promise<void> {
  const { account, month, by, config } = options
  if (by?.some(isMetadataKey)) {
    const sums = await withOperatorStore(config, (store) =>
      usageByMetadata(store, { keys: by, ...defined({ account, month }) }),
    )
    return printSums(sums, by, options)
  }
  const records = await withOperatorStore(config, (store) =>
    readAll((after: UsageRecord | undefined) =>
      store.listUsage({ ...defined({ account, month, after }), limit: PAGE_SIZE }),
    ),
  )
  const rows = records.map(usageRowView)
  if (by) return printSums(sumsBy(rows, by), by, options)
  const { json, csv } = options
  if (json || csv || rows.length === 0) return printSums(rows, USAGE_KEYS, options)
  printTable(rows, USAGE_KEYS, rows.flatMap(cellsOf))
}

function printSums(
  sums: readonly (UsageSums & KeyTexts)[],
  keys: readonly string[],
  { json, csv }: Pick<UsageOptions, 'json' | 'csv'>,
): void {
  const cells = () => sums.map((row) => [...keysOf(row, keys), ...numbersOf(row)])
  if (json) printLine(JSON.stringify(sums, null, 2))
  else if (csv) printLine(csvOf(sums, keys))
  else if (sums.length === 0) printLine('No usage was recorded.')
  else printTable(sums, keys, cells())
}

function printTable(sums: readonly UsageSums[], keys: readonly string[], cells: string[][]): void {
  const header = [...keys.map((key) => key.toUpperCase()), ...USAGE_HEADER]
  printLine(table([hasCost(sums) ? [...header, 'COST'] : header, ...cells]))
}

type KeyTexts = Readonly<Record<string, string | number | undefined>>

/** The sums are in the order of their first rows, which begin with the newest month. */
function sumsBy(rows: readonly UsageRow[], keys: readonly string[]): (KeyTexts & UsageSums)[] {
  const groups = Map.groupBy(rows, (row) => JSON.stringify(keysOf(row, keys)))
  return [...groups.values()].map((group) => {
    const [first = {}] = group
    const texts = Object.fromEntries(keys.map((key) => [key, (first as KeyTexts)[key]]))
    return { ...texts, ...sumOf(group) }
  })
}

/** The values are escaped, because metadata is text from callers. */
const keysOf = (row: KeyTexts, keys: readonly string[]) =>
  keys.map((key) => printable(String(row[key] ?? '')))

const USAGE_HEADER = ['JOBS', 'FAILED', 'CACHE HITS', 'CALLS', 'INPUT', 'OUTPUT']

function cellsOf(row: UsageRow, at: number, all: readonly UsageRow[]): string[][] {
  const { month, account, model } = row
  const cells = [month, account, model, ...numbersOf(row)]
  if (all[at + 1]?.month === month) return [cells]
  const ofMonth = all.filter((one) => one.month === month)
  return [cells, [month, 'all', '', ...numbersOf(sumOf(ofMonth))]]
}

function numbersOf(sums: UsageSums): string[] {
  const numbers = USAGE_FIELDS.map((name) => String(sums[name]))
  return sums.cost === undefined ? numbers : [...numbers, amountText(sums.cost)]
}

function hasCost(rows: readonly UsageSums[]): boolean {
  return rows.some(({ cost }) => cost !== undefined)
}

function csvOf(rows: readonly (UsageSums & KeyTexts)[], keys: readonly string[]): string {
  const cost = hasCost(rows) ? (['cost'] as const) : []
  const columns = [...keys, ...USAGE_FIELDS, ...cost]
  const lines = rows.map((row) =>
    columns
      .map((column) => csvCell(String((row as KeyTexts)[column] ?? ''), isMetadataKey(column)))
      .join(','),
  )
  return [columns.join(','), ...lines].join('\n')
}

/** Follows RFC 4180. Spreadsheets evaluate formulas, so metadata that looks like one gets an apostrophe. */
function csvCell(given: string, isOfCaller: boolean): string {
  const text = isOfCaller && /^[=+\-@\t\r]/.test(given) ? `'${given}` : given
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

const MAX_OUTCOME_LENGTH = 60

export interface AuditOptions extends DefaultOptions {
  readonly account?: string
  readonly before?: string
  readonly limit: number
}

export async function audit({ account, limit, json, config, ...options }: AuditOptions): Promise<void> {
  const before = options.before === undefined ? undefined : readJobId(options.before)
  if (before === null) {
    throw new CommandError(
      `--before: ${options.before} is not the ID of an audit log entry. \`parley audit --json\` shows the IDs.`,
    )
  }
  const entries = await withOperatorStore(config, (store) =>
    store.listAuditEntries({ ...defined({ account, beforeEntryId: before }), limit }),
  )
  if (json) return printLine(JSON.stringify(entries.map(auditEntryView), null, 2))
  if (entries.length === 0) {
    const such = account === undefined && before === undefined ? '' : 'such '
    return printLine(`The audit log has no ${such}entries.`)
  }
  printLine(table([['WHEN', 'WHO', 'WHAT', 'ACCOUNT', 'JOB OR KEY', 'OUTCOME'], ...entries.map(auditRowOf)]))
  const last = entries.at(-1)
  if (last && entries.length === limit) printLine(`For older entries, add --before ${last.id}`)
}

function auditRowOf({ atMs, who, what, account, target, detailsJson, outcome }: AuditEntry): string[] {
  const details = detailsJson === '{}' ? '' : ` ${detailsJson}`
  const cells = [timeOf(atMs), who, what + details, account ?? '', target ?? ''].map((text) =>
    printable(text),
  )
  return [...cells, printable(outcome ?? 'unknown: in progress, or interrupted', MAX_OUTCOME_LENGTH)]
}
